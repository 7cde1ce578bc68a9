package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
)

// maxParameter is the longest value of a query parameter, in bytes.
const maxParameter = 1024

// text returns a query parameter, or "" where it is absent. Each may be given once. One that is there and empty is refused:
// a client that has no value for a filter must not be answered as if it wanted no filter.
func (r *Request) text(name string) (string, error) {
	if r.query == nil {
		var err error
		if r.query, err = parseQuery(r.URL.RawQuery); err != nil {
			return "", err
		}
		r.seen = map[string]bool{}
	}
	r.seen[name] = true
	values := r.query[name]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", refuse(Validation, "parameter %s is given %d times; give it once", name, len(values))
	case values[0] == "":
		return "", refuse(Validation, "parameter %s is there and empty; leave it out, or say what it must be", name)
	case len(values[0]) > maxParameter:
		return "", refuse(Validation, "parameter %s has %d bytes; at most %d are taken", name, len(values[0]), maxParameter)
	case !utf8.ValidString(values[0]) || strings.ContainsRune(values[0], 0):
		return "", refuse(Validation, "parameter %s is not UTF-8 text", name)
	}
	return values[0], nil
}

// number returns a whole number between least and most, or otherwise where it is absent.
func (r *Request) number(name string, otherwise, least, most int) (int, error) {
	s, err := r.text(name)
	if err != nil || s == "" {
		return otherwise, err
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, refuse(Validation, "parameter %s is %q; it must be a whole number from %d to %d", name, shown(s), least, most)
	}
	return n, nil
}

// oneOf returns a parameter that is one of the allowed words, or otherwise where it is absent.
func oneOf[T ~string](r *Request, name string, otherwise T, allowed ...T) (T, error) {
	s, err := r.text(name)
	if err != nil || s == "" {
		return otherwise, err
	}
	if slices.Contains(allowed, T(s)) {
		return T(s), nil
	}
	words := make([]string, len(allowed))
	for i, word := range allowed {
		words[i] = string(word)
	}
	return "", refuse(Validation, "parameter %s is %q; it must be one of %s", name, shown(s), strings.Join(words, ", "))
}

// when returns a point in time, or zero where it is absent: RFC 3339, or a date, which is its first moment and,
// where it is an upper bound, its last.
func (r *Request) when(name string, upper bool) (time.Time, error) {
	s, err := r.text(name)
	if err != nil || s == "" {
		return time.Time{}, err
	}
	t, err := api.ParseBound(name, s, upper)
	return t, refuseField("parameter ", err)
}

// texts reads the parameters that are the texts of a filter.
func (r *Request) texts(fields []api.Field) (err error) {
	for _, f := range fields {
		if *f.Text, err = r.text(f.Name); err != nil {
			return err
		}
	}
	return nil
}

// refuseField refuses the field of a filter that err is about, by its name behind a prefix: "parameter ", or the way to it
// in a body. Another error stays as it is, and nil stays nil.
func refuseField(prefix string, err error) error {
	if wrong, is := errors.AsType[*api.FieldError](err); is {
		return refuse(Validation, "%s%s is %q; it must be %s", prefix, wrong.Field, shown(wrong.Text), wrong.Want)
	}
	return err
}

// unread refuses parameters that the operation does not know: a misspelt filter must not select everything.
func (r *Request) unread() error {
	if r.query == nil {
		if _, err := r.text(""); err != nil {
			return err
		}
	}
	var unknown []string
	for name := range r.query {
		if !r.seen[name] {
			unknown = append(unknown, strconv.Quote(shown(name)))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return refuse(Validation, "parameter %s is not known here", strings.Join(unknown, ", "))
}

// id returns a part of the path that is a uuid.
func (r *Request) id(name string) (uuid.UUID, error) { return parseID(name, r.PathValue(name)) }

func parseID(name, s string) (uuid.UUID, error) {
	id, err := api.ParseID(s)
	if err != nil {
		return id, refuse(Validation, "%s is %q; %s", name, shown(s), err)
	}
	return id, nil
}

// decode reads the body into a struct. Unknown fields, more than one value and other media types are refused.
func (r *Request) decode(into any) error {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return refuse(UnsupportedMedia, "the body's Content-Type is %q; it must be application/json", shown(r.Header.Get("Content-Type")))
	}
	if !utf8.Valid(r.Body) { // the decoder would replace what it cannot read
		return refuse(Validation, "the body is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(r.Body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		var syntax *json.SyntaxError
		var typed *json.UnmarshalTypeError
		switch {
		case errors.Is(err, io.EOF):
			return refuse(Validation, "the body is empty; it must be a JSON object")
		case errors.As(err, &syntax):
			return refuse(Validation, "the body is not JSON: %s at byte %d", syntax, syntax.Offset)
		case errors.As(err, &typed):
			if typed.Field == "" {
				return refuse(Validation, "the body is JSON of the type %s; it must be an object", typed.Value)
			}
			if number, is := strings.CutPrefix(typed.Value, "number "); is && jsonType(typed.Type) == "number" {
				return refuse(Validation, "field %s of the body is %s; it must be %s", typed.Field, shown(number), numberRange(typed.Type))
			}
			return refuse(Validation, "field %s of the body is of the type %s; it must be of the type %s", typed.Field, typed.Value, jsonType(typed.Type))
		}
		return refuse(Validation, "the body: %s", strings.TrimPrefix(shown(err.Error()), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return refuse(Validation, "the body has something after the JSON object")
	}
	return noNUL(r.Body)
}

// mayHaveNUL is the field of bodies that holds what goes into a message, byte for byte.
const mayHaveNUL = "edit"

// noNUL refuses NUL characters, which JSON can have and the database cannot, by the field that has one.
func noNUL(body []byte) error {
	if !bytes.Contains(body, []byte(`\u0000`)) {
		return nil
	}
	var whole map[string]any
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil // no object: the operation says so
	}
	delete(whole, mayHaveNUL)
	if field, found := fieldWithNUL(whole); found {
		return refuse(Validation, "field %s of the body has a NUL character, which no text may have", shown(field))
	}
	return nil
}

// fieldWithNUL returns the path to a text, or a name, that has a NUL character.
func fieldWithNUL(v any) (path string, found bool) {
	switch v := v.(type) {
	case string:
		return "", strings.ContainsRune(v, 0)
	case []any:
		for i, item := range v {
			if path, found := fieldWithNUL(item); found {
				return "[" + strconv.Itoa(i) + "]" + path, true
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if strings.ContainsRune(name, 0) {
				return name, true
			}
			if path, found := fieldWithNUL(v[name]); found {
				return strings.TrimSuffix(strings.Replace(name+"."+path, ".[", "[", 1), "."), true
			}
		}
	}
	return "", false
}

// jsonType is what JSON calls a type of ours.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Slice, reflect.Array:
		return "array of " + jsonType(t.Elem())
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Interface:
		return "any"
	}
	return "number"
}

// numberRange says which numbers a field takes.
func numberRange(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return numberRange(t.Elem())
	}
	if t.Kind() == reflect.Float64 {
		return fmt.Sprintf("a number from %g to %g", -math.MaxFloat64, math.MaxFloat64)
	}
	most := uint64(1)<<(t.Bits()-1) - 1
	return fmt.Sprintf("a whole number from -%d to %d", most+1, most)
}

// shown is a text of the client's as an answer shows it: short, and without control characters.
func shown(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// part returns a part of the path that is a text.
func (r *Request) part(name string) (string, error) {
	s := r.PathValue(name)
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return "", refuse(Validation, "%s is %q; it must be UTF-8 text", name, shown(s))
	}
	return s, nil
}

// only returns a part of the path that is a uuid, of an operation that has no parameters.
func (r *Request) only(name string) (uuid.UUID, error) {
	if err := r.unread(); err != nil {
		return uuid.Nil, err
	}
	return r.id(name)
}

// bare is only, of an operation whose body has nothing to say.
func (r *Request) bare(name string) (uuid.UUID, error) {
	id, err := r.only(name)
	if err != nil {
		return id, err
	}
	return id, r.optional(&nothing{})
}

// uuid returns a parameter that is a uuid; uuid.Nil where it is absent, and only there.
func (r *Request) uuid(name string) (uuid.UUID, error) {
	text, err := r.text(name)
	if err != nil || text == "" {
		return uuid.Nil, err
	}
	return parseID("parameter "+name, text)
}

// member returns a member of an object as decode finds it: in large or small letters.
func member(object map[string]any, name string) (value any, there bool) {
	for key, value := range object {
		if strings.EqualFold(key, name) {
			return value, true
		}
	}
	return nil, false
}

// saysWhich refuses fields of the body that select what an operation acts on and say nothing: null, empty or the uuid that
// stands for none. A client that has no value there must not act on everything. A path leads to a field that selects, or to
// an object of them. It is asked after decode, so the body is an object.
func (r *Request) saysWhich(paths ...string) error {
	var whole map[string]any
	if err := json.Unmarshal(r.Body, &whole); err != nil {
		return nil // no object: decode has said so
	}
	for _, path := range paths {
		names := strings.Split(path, ".")
		within, last := whole, names[len(names)-1]
		for _, name := range names[:len(names)-1] {
			inner, _ := member(within, name)
			within, _ = inner.(map[string]any)
		}
		field, there := member(within, last)
		if !there {
			continue
		}
		fields := map[string]any{path: field}
		if object, is := field.(map[string]any); is {
			clear(fields)
			for name, value := range object {
				fields[path+"."+name] = value
			}
		}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if value := fields[name]; value == nil || value == "" || value == uuid.Nil.String() {
				return refuse(Validation, "field %s of the body is there and says nothing; leave it out, or say what it must be", shown(name))
			}
		}
	}
	return nil
}

// body is decode, of an operation that has no parameters.
func (r *Request) body(into any) error {
	if err := r.unread(); err != nil {
		return err
	}
	return r.decode(into)
}

// optional is body, of an operation that also works without one.
func (r *Request) optional(into any) error {
	if len(r.Body) == 0 {
		return r.unread()
	}
	return r.body(into)
}
