package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// isTooLarge reports whether a code says that a record is larger than the relay, by its settings, or the broker takes. Such a
// message fails again in the same way until a limit is raised.
func isTooLarge(code string) bool {
	return code == "MESSAGE_TOO_LARGE" || code == "RECORD_LIST_TOO_LARGE"
}

// tooLargeText warns of messages that were too large for a topic, and are sent to target; empty for the same topic. of says
// among how many they were counted; empty for all.
func tooLargeText(n int64, of, topic, target string) string {
	to := "it takes larger messages by now"
	if target != "" && target != dlq.TargetOrigin && target != topic {
		to = clip(target, 120) + " takes larger messages"
		if target == dlq.TargetGroup {
			to = "the retry topic takes larger messages"
		}
	}
	where := clip(topic, 120)
	return some(n, of+"was too large for "+where+", and fails again unless "+to, of+"were too large for "+where+", and fail again unless "+to) +
		": raise kafka.max_message_bytes and the topic’s max.message.bytes first"
}

// warnTooLarge adds to the page of a planned redrive which of its first messages fail again because they are too large.
func (v *visit) warnTooLarge(view *operationView) error {
	if view.Kind != dlq.OpRedrive || view.State != dlq.Planned {
		return nil
	}
	found, err := get[api.List[api.OperationItem]](v, "/operations/"+v.id()+"/items", url.Values{"page_size": {strconv.Itoa(maxRest)}})
	if err != nil {
		return err
	}
	topics := map[string]int64{}
	for _, item := range found.Items {
		if isTooLarge(text(item.ErrorCode)) {
			topics[text(item.Topic)]++
		}
	}
	of := ""
	if found.Next != nil {
		of = "of the first " + count(maxRest) + " "
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		fails := tooLargeText(topics[topic], of, topic, view.Options.Target)
		view.Warnings = append(view.Warnings, warning{Text: fails})
		view.Say.foretell(fails)
	}
	return nil
}

// foretell puts what is known to fail before what else is said of a plan.
func (s *say) foretell(warning string) {
	s.Mark, s.More = "held", sentence(warning)+" "+s.More
}
