package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Code says what kind of error an answer is about.
type Code string

// The codes of errors, and their statuses.
const (
	Validation          Code = "VALIDATION_ERROR"
	Unauthenticated     Code = "UNAUTHENTICATED"
	Forbidden           Code = "FORBIDDEN"
	NotFound            Code = "NOT_FOUND"
	NotAllowed          Code = "METHOD_NOT_ALLOWED"
	Conflict            Code = "CONFLICT"
	TooLarge            Code = "PAYLOAD_TOO_LARGE"
	UnsupportedMedia    Code = "UNSUPPORTED_MEDIA_TYPE"
	IdempotencyMismatch Code = "IDEMPOTENCY_MISMATCH"
	RateLimited         Code = "RATE_LIMITED"
	Internal            Code = "INTERNAL"
	Unavailable         Code = "UNAVAILABLE"
)

var statuses = map[Code]int{
	Validation: http.StatusBadRequest, Unauthenticated: http.StatusUnauthorized, Forbidden: http.StatusForbidden,
	NotFound: http.StatusNotFound, NotAllowed: http.StatusMethodNotAllowed, Conflict: http.StatusConflict,
	TooLarge: http.StatusRequestEntityTooLarge, UnsupportedMedia: http.StatusUnsupportedMediaType,
	IdempotencyMismatch: http.StatusUnprocessableEntity, RateLimited: http.StatusTooManyRequests,
	Internal: http.StatusInternalServerError, Unavailable: http.StatusServiceUnavailable,
}

// Error is an error that its text may be told to the client.
type Error struct {
	Code Code
	// Message says what was wrong, where, and what to do.
	Message string
	// Details are more for programs; nil for none.
	Details any
	// Database says that the database does not answer. It is for callers in the process; the wire has it in the message.
	Database bool
}

// Status is the status of an answer that has the error.
func (e *Error) Status() int { return statuses[e.Code] }

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// refuse makes an Error.
func refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// envelope is the shape of every answer.
type envelope struct {
	OK    bool       `json:"ok"`
	Data  any        `json:"data"`
	Error *errorBody `json:"error"`
}

// errorBody is what an answer says about an error.
type errorBody struct {
	// Code is what kind of error it is, for programs.
	Code Code `json:"code"`
	// Message says what was wrong, where, and what to do.
	Message string `json:"message"`
	// Details are more for programs; left out where there is no more.
	Details any `json:"details,omitempty"`
	// RequestID is the id of the request, as in the header X-Request-Id and in the log.
	RequestID string `json:"request_id,omitempty"`
}

// encode makes the body of an answer. Characters that HTML gives a meaning are escaped as JSON can: when a program puts an
// answer into a page by mistake, the page shows text.
func encode(e envelope) (body []byte, err error) { return json.Marshal(e) }

// toldError is what clients are told of an error. An error that is not meant for clients is told to the log alone.
func toldError(err error, requestID string) *Error {
	var told *Error
	if !errors.As(err, &told) {
		told = refuse(Internal, "something failed that is not the request's fault; the log has it under request id %s", requestID)
	}
	return told
}

// answerError makes the answer for an error.
func answerError(err error, requestID string) (status int, body []byte) {
	told := toldError(err, requestID)
	body, err = encode(envelope{Error: &errorBody{told.Code, told.Message, told.Details, requestID}})
	if err != nil { // details that are no JSON
		body, _ = encode(envelope{Error: &errorBody{Code: told.Code, Message: told.Message, RequestID: requestID}})
	}
	return statuses[told.Code], body
}
