// Package api has the JSON of everything that people and programs are shown, each defined once. The HTTP API serves these
// types as data, commands print them with -o json and -o yaml, and agents get them. Tables are columns of them.
//
// A field without a value is null, unless its comment says otherwise. Times are RFC 3339 in UTC; a time outside of the
// years 1 to 9999, which RFC 3339 cannot say, becomes the nearest that it can. Constructors pass every time through Time or
// TimeOrNull: encoding/json refuses other times, and a whole list for one of them.
package api
