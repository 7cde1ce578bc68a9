package postgres

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/postrider/postrider/message"
)

// parseHeaders reads dlq_letter.headers. Unlike message.ParseHeaders, which checks what a writer gave, it
// takes whatever a foreign record may have, an empty name too.
func parseHeaders(raw []byte) ([]message.Header, error) {
	var pairs [][2]any
	if err := json.Unmarshal(raw, &pairs); err != nil {
		return nil, fmt.Errorf("headers: %w", err)
	}
	var hs []message.Header
	for i, pair := range pairs {
		name, named := pair[0].(string)
		value, ok := headerValue(pair[1])
		if !named || !ok {
			return nil, fmt.Errorf("headers: element %d is not a pair of a name and a value", i)
		}
		hs = append(hs, message.Header{Name: name, Value: value})
	}
	return hs, nil
}

func headerValue(v any) ([]byte, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case string:
		return []byte(v), true
	case map[string]any:
		encoded, _ := v["base64"].(string)
		value, err := base64.StdEncoding.DecodeString(encoded)
		return value, err == nil
	}
	return nil, false
}
