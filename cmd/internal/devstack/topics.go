package devstack

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/message"
)

// controlEvery is after how many requests a control is replaced by a fresh
// one: kfake remembers in each control every connection that it has served.
const controlEvery = 1000

// control has kfake show fn every request of a kind before it answers. fn
// returns a response in its place, or nil.
func control(c *kfake.Cluster, key kmsg.Key, fn func(kmsg.Request) kmsg.Response) {
	seen := 0
	c.ControlKey(key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if seen++; seen == controlEvery {
			c.DropControl()
			control(c, key, fn)
		} else {
			c.KeepControl()
		}
		resp := fn(req)
		return resp, nil, resp != nil
	})
}

// createOnUse creates the topics that a client asks for with its permission to
// create them. kfake has the same, but forgets to write the new topic to its
// folder before it shuts down: a process that was killed came back without the
// topic and its records.
func createOnUse(c *kfake.Cluster) func(kmsg.Request) kmsg.Response {
	return func(req kmsg.Request) kmsg.Response {
		meta := req.(*kmsg.MetadataRequest)
		if !meta.AllowAutoTopicCreation {
			return nil
		}
		for _, t := range meta.Topics {
			if t.Topic != nil && message.ValidTopic(*t.Topic) == nil {
				// It exists, or its name collides with another one's: then the
				// answer to the request itself says so.
				_ = c.CreateTopic(*t.Topic, 0, nil)
			}
		}
		return nil
	}
}

// refuseNames refuses to create topics whose names Apache Kafka refuses; kfake
// takes any name, and makes a folder of it. A request with a refused name creates
// nothing.
func refuseNames(req kmsg.Request) kmsg.Response {
	create := req.(*kmsg.CreateTopicsRequest)
	resp := create.ResponseKind().(*kmsg.CreateTopicsResponse)
	refused := false
	for _, t := range create.Topics {
		answer := kmsg.NewCreateTopicsResponseTopic()
		answer.Topic = t.Topic
		answer.NumPartitions, answer.ReplicationFactor = -1, -1
		if message.ValidTopic(t.Topic) == nil {
			answer.ErrorCode = kerr.InvalidRequest.Code
			answer.ErrorMessage = kmsg.StringPtr("another topic of the same request has an invalid name")
		} else {
			refused = true
			answer.ErrorCode = kerr.InvalidTopicException.Code
			answer.ErrorMessage = kmsg.StringPtr("a topic name has 1 to 249 letters, digits, dots, underscores and dashes, and is neither . nor ..")
		}
		resp.Topics = append(resp.Topics, answer)
	}
	if !refused {
		return nil
	}
	return resp
}
