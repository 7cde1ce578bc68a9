package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/message"
)

// Class says whether an error may pass.
type Class string

const (
	// Unclassified is the answer of a function of Config.Classify about an error that it does not know.
	Unclassified Class = ""
	// ClassTransient errors may pass: the message is tried again until its attempts are spent.
	ClassTransient Class = "transient"
	// ClassPermanent errors stay: the message is given up at once.
	ClassPermanent Class = "permanent"
)

// Classes of a dead letter's error, as package message knows them (message.CategoryOf).
const (
	letterRecord    = "record"
	letterPermanent = "permanent"
)

// classified is an error with its class.
type classified struct {
	error
	class    Class
	category message.Category // empty: it follows from class and code
}

func (e *classified) Unwrap() error { return e.error }

// Permanent marks an error as one that no further attempt can mend. nil stays nil. What it asks of people follows from its
// code (message.CategoryOf): it is message.Fatal but for few codes. PermanentAs names it.
func Permanent(err error) error { return mark(err, ClassPermanent, "") }

// PermanentAs is Permanent with the category that the dead letter and its investigation show, which says what is asked of
// people: message.Validation, the message must be changed before it is sent again; message.Transient, it may be sent
// again as it is when the cause is gone; message.Fatal, a person must find out why. A word that is no category counts as
// none was named.
func PermanentAs(category message.Category, err error) error {
	if !slices.Contains(message.Categories(), category) {
		category = ""
	}
	return mark(err, ClassPermanent, category)
}

// Transient marks an error as one that may pass. An unmarked error counts as transient, too, unless Config.Classify
// says otherwise or it is an ErrUndecodable. nil stays nil.
func Transient(err error) error { return mark(err, ClassTransient, "") }

func mark(err error, class Class, category message.Category) error {
	if err == nil {
		return nil
	}
	return &classified{err, class, category}
}

// classOf is the outermost mark of the error, with the category that it names, or what the first predicate that knows the
// error says. Otherwise an ErrUndecodable is permanent: the bytes stay what they are. Any other error is transient.
func classOf(err error, predicates []func(error) Class) (Class, message.Category) {
	if e, ok := errors.AsType[*classified](err); ok {
		return e.class, e.category
	}
	for _, p := range predicates {
		if class := p(err); class != Unclassified {
			return class, ""
		}
	}
	if errors.Is(err, ErrUndecodable) {
		return ClassPermanent, ""
	}
	return ClassTransient, ""
}

// Codes of errors that say nothing themselves.
const (
	// CodePanic: the handler panicked.
	CodePanic = "PANIC"
	// CodeTimeout: the message's time was up.
	CodeTimeout = "TIMEOUT"
	// CodeUndecodable: see ErrUndecodable.
	CodeUndecodable = "UNDECODABLE"
	// CodeFailed: any other error that neither has an ErrorCode method nor a type of its own.
	CodeFailed = "HANDLER_FAILED"
)

// Coder is implemented by errors that name their code, which dead letters are grouped by.
type Coder interface {
	error
	ErrorCode() string
}

// codeOf names an error in one word.
func codeOf(err error) string {
	if c, ok := errors.AsType[Coder](err); ok {
		if code := c.ErrorCode(); code != "" {
			return code
		}
	}
	if errors.Is(err, ErrUndecodable) {
		return CodeUndecodable
	}
	if _, ok := errors.AsType[*PanicError](err); ok {
		return CodePanic
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return CodeTimeout
	}
	return typeOf(err)
}

// typeOf is the type of the innermost error that is not one of the standard library's for a text.
func typeOf(err error) string {
	name := ""
	for err != nil {
		if t := fmt.Sprintf("%T", err); !anonymous(t) {
			name = strings.TrimPrefix(t, "*")
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			err = nil
			if all := e.Unwrap(); len(all) > 0 {
				err = all[0]
			}
		default:
			err = nil
		}
	}
	if name == "" {
		return CodeFailed
	}
	return name
}

func anonymous(t string) bool {
	switch t {
	case "*errors.errorString", "*errors.joinError", "*fmt.wrapError", "*fmt.wrapErrors", "*consumer.classified":
		return true
	}
	return false
}

// stackOf is the stack of a panic; other errors have none.
func stackOf(err error) string {
	if p, ok := errors.AsType[*PanicError](err); ok {
		return string(p.Stack)
	}
	return ""
}

// timeout bounds a handler's work; 0 is no bound.
type timeout time.Duration

func (t timeout) context(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(t))
}
