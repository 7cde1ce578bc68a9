package console

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/relay"
)

func showEvent(v *visit) error {
	e, err := v.readEvent()
	if err == nil {
		v.frame.View = e
	}
	return err
}

// revealEvent shows what an event carries. The API writes into the audit log who looks.
func revealEvent(v *visit, as string) error {
	e, err := v.readEvent()
	if err != nil {
		return err
	}
	carries, err := get[api.EventPayload](v, "/outbox/"+v.id()+"/payload", nil)
	if err != nil {
		return err
	}
	e.carry(carries, as)
	v.frame.View = e
	return nil
}

// carry adds what the event carries, shown in a way.
func (e *eventView) carry(p api.EventPayload, as string) {
	e.Revealed, e.FullKey, e.Headers = true, string(bytesOf(p.Key)), eventHeaders(p.Headers)
	if p.Payload == nil {
		e.Body = body{Kind: "tombstone", None: "It is a tombstone: Kafka’s null, which deletes its key from a compacted topic."}
		return
	}
	e.Body = showBytes(bytesOf(p.Payload), false, as)
}

// eventHeaders reads the headers of an event: an object of texts, or pairs.
func eventHeaders(raw json.RawMessage) []pair {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return headerPairs(raw)
	}
	var out []pair
	for name, value := range members {
		out = append(out, pair{name, plainJSON(value)})
	}
	slices.SortFunc(out, func(a, b pair) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func skipEvent(v *visit) (string, error) {
	_, err := ask[relay.EventStatus](v, http.MethodPost, "/outbox/"+v.id()+"/skip", nil, map[string]any{"reason": strings.TrimSpace(v.FormValue("reason"))})
	if err == nil {
		v.say("It is given up: it becomes a dead letter, and the later events of its key go on.")
	}
	return "/outbox/" + v.id(), err
}

func redriveEvent(v *visit) (string, error) {
	_, err := ask[relay.EventStatus](v, http.MethodPost, "/outbox/"+v.id()+"/redrive", nil, nil)
	if err == nil {
		v.say("It is back in its place: it goes next, and its key goes on when it arrives.")
	}
	return "/outbox/" + v.id(), err
}
