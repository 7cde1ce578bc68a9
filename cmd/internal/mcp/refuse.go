package mcp

import (
	"errors"
	"fmt"

	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// refuse makes an error that the client is told, with the codes of the API.
func refuse(code httpapi.Code, format string, args ...any) *httpapi.Error {
	return &httpapi.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// is reports whether an error is told with this code.
func is(err error, code httpapi.Code) bool {
	var told *httpapi.Error
	return errors.As(err, &told) && told.Code == code
}
