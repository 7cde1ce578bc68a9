package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/postrider/postrider/cmd/internal/access"
)

// withheld stands in place of what an agent needs the scope read:payload for. People who read investigations see what
// the rules of redaction leave. An agent passes on what it reads to the operator of its model, so it sees nothing of a
// message until a person gives its key the scope for it, whether there are rules or not.
const withheld = "[withheld: needs the scope read:payload]"

// ofMessages are the members of a snapshot that have what a message carried, and what a task was given or returned.
var ofMessages = map[string]bool{
	"key": true, "payload": true,
	"context": true, "metadata": true, "inputs": true, "results": true, "idempotency_key": true,
}

// withhold takes out of an answer what its reader has no scope for.
func withhold(ctx context.Context, answer json.RawMessage) (json.RawMessage, error) {
	if access.ActorOf(ctx).May(access.ReadPayload) {
		return answer, nil
	}
	v, err := decode(answer)
	if err != nil {
		return nil, err
	}
	return json.Marshal(without(v, false))
}

// withoutKeys takes the keys of holds out of a status, for every agent: counting holds does not need them, and a look
// at them would be one that the audit log knows nothing of.
func withoutKeys(status json.RawMessage) (json.RawMessage, error) {
	v, err := decode(status)
	if err != nil {
		return nil, err
	}
	if members, is := v.(map[string]any); is {
		if outbox, is := members["outbox"].(map[string]any); is {
			members = outbox
		}
		if holds, is := members["holds"].([]any); is {
			keyless(holds)
		}
	}
	return json.Marshal(v)
}

// withoutEventKeys takes the keys out of a list of events, or of what an operation is about, for every agent, as
// withoutKeys does.
func withoutEventKeys(list json.RawMessage) (json.RawMessage, error) {
	v, err := decode(list)
	if err != nil {
		return nil, err
	}
	if members, is := v.(map[string]any); is {
		if items, is := members["items"].([]any); is {
			for _, item := range items {
				for _, name := range []string{"key", "idempotency_key"} {
					if event, is := item.(map[string]any); is && event[name] != nil {
						event[name] = withheld
					}
				}
			}
		}
	}
	return json.Marshal(v)
}

func decode(answer json.RawMessage) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(answer))
	dec.UseNumber() // numbers stay as they are written
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("data for an agent: %w", err)
	}
	return v, nil
}

// without replaces the withheld values in v. In a snapshot the names of members alone tell them. Elsewhere there are maps
// whose names are other people's words, so a member with a message's headers or keys is known by its place, too.
func without(v any, inSnapshot bool) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			list, isList := member.([]any)
			switch {
			case member == nil:
			case inSnapshot && ofMessages[name]:
				v[name] = withheld
			case isList && (name == "headers" || name == "redacted_headers"):
				v[name] = headerNames(list)
			case isList && name == "holds":
				v[name] = without(keyless(list), inSnapshot)
			default:
				v[name] = without(member, inSnapshot || name == "snapshot" || name == "task_snapshot")
			}
		}
	case []any:
		for i := range v {
			v[i] = without(v[i], inSnapshot)
		}
	}
	return v
}

// headerNames are pairs of name and value without the values.
func headerNames(pairs []any) []any {
	for i, pair := range pairs {
		p, isPair := pair.([]any)
		if !isPair || len(p) != 2 {
			pairs[i] = withheld
			continue
		}
		if p[1] != nil {
			p[1] = withheld
		}
	}
	return pairs
}

// keyless are holds without their keys.
func keyless(holds []any) []any {
	for _, hold := range holds {
		if h, isHold := hold.(map[string]any); isHold && h["key"] != nil {
			h["key"] = withheld
		}
	}
	return holds
}
