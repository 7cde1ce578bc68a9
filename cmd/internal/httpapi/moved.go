package httpapi

import (
	"strconv"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// What package api has by now, for the handlers that do not use it yet.

// list is a page of items in the order of their ids; see api.List.
type list[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next"`
}

// notNull makes an empty list of none; see api.ListOf.
func notNull[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// next is the place behind a row; see api.List.Next.
func next(id int64) *string {
	if id == 0 {
		return nil
	}
	text := strconv.FormatInt(id, 10)
	return &text
}

func parseTime(text string, upper bool) (time.Time, bool) { return api.ParseTime(text, upper) }

type operationView = api.Operation

func viewOperation(o dlq.Operation) operationView { return api.NewOperation(o) }
