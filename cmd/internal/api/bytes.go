package api

import (
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// Bytes are the bytes of a key or of a payload. JSON cannot hold any bytes, so Encoding says how Value has them.
type Bytes struct {
	// Encoding is how Value has them: json, text or base64.
	Encoding string `json:"encoding"`
	// Value is the JSON itself, or a text.
	Value any `json:"value"`
}

// KeyBytes are the bytes of a key: text where they are UTF-8, otherwise base64; nil for no key. A key that looks like JSON
// stays text: 007 and 7 are different keys.
func KeyBytes(b []byte) *Bytes {
	switch {
	case b == nil:
		return nil
	case utf8.Valid(b):
		return &Bytes{"text", string(b)}
	}
	return &Bytes{"base64", base64.StdEncoding.EncodeToString(b)}
}

// PayloadBytes are the bytes of a payload: JSON, text or base64, whichever fits first; nil for Kafka's null.
func PayloadBytes(b []byte) *Bytes {
	if b != nil && utf8.Valid(b) && json.Valid(b) {
		return &Bytes{"json", json.RawMessage(b)}
	}
	return KeyBytes(b)
}
