package message_test

import (
	"fmt"

	"github.com/postrider/postrider/message"
)

// A tool that reads a dead-letter topic tells what an error asks of people.
func ExampleCategoryOf() {
	fmt.Println(message.CategoryOf("permanent", "INVALID_HEADERS"))
	fmt.Println(message.CategoryOf("record", "CORRUPT_MESSAGE"))
	fmt.Println(message.CategoryOf("permanent", "WORKER_KILLED"))
	// Output:
	// validation
	// transient
	// fatal
}

// Headers stand in the database as JSON: an object, or pairs where order or repetition counts.
func ExampleParseHeaders() {
	headers, err := message.ParseHeaders([]byte(`[["tenant", "7"], ["signature", {"base64": "AAH/"}]]`))
	if err != nil {
		panic(err)
	}
	for _, h := range headers {
		fmt.Printf("%s = %q\n", h.Name, h.Value)
	}
	// Output:
	// tenant = "7"
	// signature = "\x00\x01\xff"
}
