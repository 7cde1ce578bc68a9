// Package jsontime lets answers in JSON survive a time that RFC 3339 cannot say. PostgreSQL and Kafka know years
// before 0001 and after 9999; encoding/json refuses a time in one, and with it the whole list that it is in.
package jsontime

import (
	"encoding/json"
	"errors"
	"reflect"
	"time"
)

// The first and the last second that programs in most languages can read.
var (
	first = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	last  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// Encode calls encode with v. Where that fails at a time, it calls it once more with a copy of v in which each time
// that cannot be said is the nearest that can: 0001-01-01T00:00:00Z or 9999-12-31T23:59:59Z. So a field that is
// promised to be a time stays one. encode must have written nothing when it fails, as json.Encoder does.
func Encode(v any, encode func(any) error) error {
	err := encode(v)
	if !ofTime(err) {
		return err
	}
	near := reflect.New(reflect.TypeOf(v)).Elem()
	near.Set(reflect.ValueOf(v))
	bring(near)
	return encode(near.Interface())
}

// ofTime reports whether a time refused to be encoded.
func ofTime(err error) bool {
	for {
		e, ok := errors.AsType[*json.MarshalerError](err)
		if !ok {
			return false
		}
		if e.Type == reflect.TypeFor[time.Time]() || e.Type == reflect.TypeFor[*time.Time]() {
			return true
		}
		err = e.Err
	}
}

// bring brings the times in v near, which is addressable. What v only refers to is copied first: it belongs to others.
func bring(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if t, ok := timeIn(v); ok {
			v.Set(reflect.ValueOf(nearest(t)))
			return
		}
		for i := range v.NumField() {
			// The fields of an embedded struct are encoded even if its own name is not exported.
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct {
				bring(v.Field(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			bring(v.Index(i))
		}
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			bring(c.Index(i))
		}
		v.Set(c)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		c := reflect.MakeMapWithSize(v.Type(), v.Len())
		for key, value := range v.Seq2() {
			c.SetMapIndex(key, brought(value))
		}
		v.Set(c)
	case reflect.Pointer:
		if !v.IsNil() {
			v.Set(brought(v.Elem()).Addr())
		}
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(brought(v.Elem()))
		}
	}
}

// brought is a copy of v with its times brought near.
func brought(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	bring(c)
	return c
}

func timeIn(v reflect.Value) (time.Time, bool) {
	if !v.CanSet() {
		return time.Time{}, false
	}
	t, ok := v.Interface().(time.Time)
	return t, ok
}

func nearest(t time.Time) time.Time {
	switch t = t.UTC(); {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	default:
		return t
	}
}
