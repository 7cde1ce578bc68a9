package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/config"
)

// anyBytes are the flags whose values need not be text: names of files, values that go into a message byte for byte, and
// values that are compared with them.
var anyBytes = []string{"config", "data", "api-key-file", "lifecycle", "payload", "header", "match"}

// checkText refuses flags and arguments that are no text: the database would refuse them later, in words that name
// neither.
func checkText(cmd *cobra.Command, args []string) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if err == nil && !isText(value) && !slices.Contains(anyBytes, f.Name) && !strings.HasPrefix(value, "@") {
			err = usagef("--%s is %q, which is not UTF-8 text", f.Name, shorten(value, 60))
		}
	})
	if err != nil || strings.Contains(cmd.Use, "FILE") {
		return err
	}
	for n, arg := range args {
		if !isText(arg) {
			return usagef("argument %d is %q, which is not UTF-8 text", n+1, shorten(arg, 60))
		}
	}
	return nil
}

// selecting are the flags that choose what a command works on. An empty one is refused: if a script has no value for the
// flag, the command must not list, or treat, everything.
var selecting = []string{"source", "topic", "key", "hold", "reason", "dlq-reason", "code", "text", "consumer-group", "dlq-topic", "outcome", "from", "to", "since", "until", "status", "where-status", "subject-type", "subject-id", "group",
	"older-than", "state", "event", "task", "cause", "namespace", "name", "template-version", "by", "action", "target-type", "target-id", "final-state",
	"before", "after", "offsets", "letter"}

// checkSelecting refuses selecting flags that are given and empty.
func checkSelecting(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		selects := slices.Contains(selecting, f.Name) || f.Name == "assignee" && cmd.Flags().Lookup("code") != nil // beside other filters
		if err == nil && selects && f.Value.String() == "" {
			err = usagef("--%s is given and empty; leave it out, or say what it must be: %s", f.Name, purpose(f))
		}
	})
	return err
}

// identity reads a flag that is the id of one thing; it is uuid.Nil where the flag is not given, and only there.
func identity(flag, of, text string) (uuid.UUID, error) {
	if text == "" {
		return uuid.Nil, nil
	}
	id, err := api.ParseID(text)
	if err != nil {
		return id, usagef("--%s is %q; it must be the id of %s, %s", flag, shorten(text, 80), of, api.WantID)
	}
	return id, nil
}

// parseID reads an argument that is the id of a thing; list is the command that shows them.
func parseID(text, of, list string) (uuid.UUID, error) {
	id, err := api.ParseID(text)
	if err != nil {
		return id, usagef("%q is not the id of %s, %s; %s shows them", shorten(text, 80), of, api.WantID, list)
	}
	return id, nil
}

// isText reports whether a column of the type text holds it.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// flagTypes says what a value of a type of flag must be.
var flagTypes = map[string]string{
	"int": "a whole number", "int64": "a whole number", "int32Slice": "whole numbers, separated by commas", "float64": "a number",
	"duration": "a time such as 90s, 5m or 2h", "bool": "true or false",
}

// flagError says of a mistake in a flag what was given, what must be, and what the flag is for.
func flagError(cmd *cobra.Command, err error) error {
	if e, is := errors.AsType[*pflag.InvalidValueError](err); is {
		f := e.GetFlag()
		want, known := flagTypes[f.Value.Type()]
		if !known {
			return usagef("--%s is %q: %w", f.Name, shorten(e.GetValue(), 60), e.Unwrap())
		}
		return usagef("--%s is %q; it must be %s: %s", f.Name, shorten(e.GetValue(), 60), want, purpose(f))
	}
	if e, is := errors.AsType[*pflag.ValueRequiredError](err); is {
		return usagef("--%s needs a value: %s", e.GetFlag().Name, purpose(e.GetFlag()))
	}
	if e, is := errors.AsType[*pflag.NotExistError](err); is && e.GetSpecifiedShortnames() == "" {
		return usagef("unknown flag --%s of %s%s", shorten(e.GetSpecifiedName(), 60), cmd.CommandPath(), nearestFlag(cmd, e.GetSpecifiedName()))
	}
	return &usageError{err}
}

// purpose is the help of a flag.
func purpose(f *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(f)
	return usage
}

// nearestFlag suggests a flag of the command for one that it does not have.
func nearestFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; the nearest is --%s", config.Nearest(name, names))
}
