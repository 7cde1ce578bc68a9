package message

// Category says in one word what an error asks of people. The consumer that gave a message up may name it (HeaderErrorCategory).
// Otherwise it follows from the error's class and code, which say more; see CategoryOf.
type Category string

const (
	// Validation: the event itself cannot be delivered as it is. It was given up at once, and sending it
	// again helps only after it was changed.
	Validation Category = "validation"
	// Transient: it may pass without a change of the event, and so it is tried again: by attempts, or for
	// as long as an outage or a missing topic lasts. A dead letter with it may be sent again when the
	// cause is gone.
	Transient Category = "transient"
	// Fatal: it was given up at once, and not because of the event's content: an operator must find out why before it
	// is sent again.
	Fatal Category = "fatal"
)

// Categories returns every category.
func Categories() []Category { return []Category{Validation, Transient, Fatal} }

// Codes of errors that the relay does not have from a broker, and that others ask for.
const (
	// CodeSkipped, of class permanent: an operator gave the event up by hand.
	CodeSkipped = "SKIPPED"
	// CodeMaxAgeExceeded, of class infrastructure or route: it could not be sent for longer than its topic
	// allows.
	CodeMaxAgeExceeded = "MAX_AGE_EXCEEDED"
)

// validationCodes are the codes of permanent errors that are about the event's own topic, key, payload
// or headers.
var validationCodes = map[string]bool{
	"MESSAGE_TOO_LARGE": true, "RECORD_LIST_TOO_LARGE": true, "INVALID_RECORD": true, "INVALID_TOPIC_EXCEPTION": true, // the broker's names
	"INVALID_HEADERS": true, "INVALID_TOPIC": true, "TOPIC_NOT_ALLOWED": true, // the relay's
	"UNDECODABLE": true, // of package consumer
}

// CategoryOf tells the category of an error from its class and code, as they stand in an event's row, in the headers of
// a dead letter, in a dead letter's row and, as cause, in a hold. It is empty where there is no error, and for an
// unknown class, which a dead letter of another program may have.
//
//	class                          code                                       category
//	infrastructure, route, record  any                                        transient
//	retry, redrive (of holds)      any                                        transient
//	halted, circuit_breaker (hold) any                                        fatal
//	withheld                       any                                        transient
//	permanent                      MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
//	                               INVALID_RECORD, INVALID_HEADERS,
//	                               INVALID_TOPIC, INVALID_TOPIC_EXCEPTION,
//	                               TOPIC_NOT_ALLOWED, UNDECODABLE             validation
//	permanent                      any other, such as WORKER_KILLED, SKIPPED  fatal
func CategoryOf(class, code string) Category {
	switch class {
	case "infrastructure", "route", "record", "retry", "withheld", "redrive":
		return Transient
	case "halted", "circuit_breaker":
		return Fatal // an operator must look
	case "permanent":
		if validationCodes[code] {
			return Validation
		}
		return Fatal
	}
	return ""
}
