package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
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
	class Class
}

func (e *classified) Unwrap() error { return e.error }

// Permanent marks an error as one that no further attempt can mend. nil stays nil.
func Permanent(err error) error { return mark(err, ClassPermanent) }

// Transient marks an error as one that may pass. An unmarked error counts as transient, too, unless Config.Classify
// says otherwise. nil stays nil.
func Transient(err error) error { return mark(err, ClassTransient) }

func mark(err error, class Class) error {
	if err == nil {
		return nil
	}
	return &classified{err, class}
}

// classOf is the outermost mark of the error, or what the first predicate that knows it says; transient otherwise.
func classOf(err error, predicates []func(error) Class) Class {
	if e, ok := errors.AsType[*classified](err); ok {
		return e.class
	}
	for _, p := range predicates {
		if class := p(err); class != Unclassified {
			return class
		}
	}
	return ClassTransient
}

// Codes of errors that say nothing themselves.
const (
	// CodePanic: the handler panicked.
	CodePanic = "PANIC"
	// CodeTimeout: the message's time was up.
	CodeTimeout = "TIMEOUT"
	// CodeUndecodable: see Decode.
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
