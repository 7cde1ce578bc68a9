package console

import (
	"fmt"
	"html/template"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// count is a whole number with separators of thousands, or the one that a pointer points to; nil is –.
func count(n any) string {
	v := reflect.Indirect(reflect.ValueOf(n))
	if !v.IsValid() {
		return "–"
	}
	digits := strconv.FormatInt(v.Int(), 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// some is a count with its noun: 1 event, 213 events.
func some[N ~int | ~int32 | ~int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// rate is how many a second.
func rate(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
	}
	return count(int64(math.Round(v)))
}

// ageText is how long, in the unit that fits.
func ageText(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < 10*time.Second:
		return strconv.FormatFloat(math.Round(d.Seconds()*10)/10, 'f', -1, 64) + " s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// latencyText is a short time, and its unit.
func latencyText(d time.Duration) (figure, unit string) {
	if d < 2*time.Second {
		return count(max(int64(math.Round(float64(d)/float64(time.Millisecond))), 1)), "ms"
	}
	return strconv.FormatFloat(math.Round(d.Seconds()*10)/10, 'f', -1, 64), "s"
}

// clock is a time for people: how long ago under a minute, the clock on the same day (UTC), the weekday before, then the date.
func clock(t, now time.Time) string {
	t, ago := t.UTC(), now.Sub(t)
	switch {
	case ago >= 0 && ago < time.Minute:
		return fmt.Sprintf("%d s ago", int(ago.Seconds()))
	case t.Format(time.DateOnly) == now.UTC().Format(time.DateOnly):
		return t.Format("15:04")
	case ago > -6*24*time.Hour && ago < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	case t.Year() == now.UTC().Year():
		return t.Format("2 Jan")
	}
	return t.Format("2 Jan 2006")
}

// timeTag is a time with the whole of it behind. The script makes what is shown newer.
func timeTag(t any) template.HTML {
	at, is := t.(time.Time)
	if p, pointer := t.(*time.Time); pointer && p != nil {
		at, is = *p, true
	}
	if !is || at.IsZero() {
		return "–"
	}
	at = at.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, at.Format(time.RFC3339Nano), at.Format("2006-01-02 15:04:05.000 UTC"), clock(at, time.Now())))
}

// exactTag is a time to the second.
func exactTag(t any) template.HTML {
	at, is := t.(time.Time)
	if p, pointer := t.(*time.Time); pointer && p != nil {
		at, is = *p, true
	}
	if !is || at.IsZero() {
		return "–"
	}
	at = at.UTC()
	shown := at.Format("15:04:05")
	if at.Format(time.DateOnly) != time.Now().UTC().Format(time.DateOnly) {
		shown = at.Format("2 Jan 15:04:05")
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, at.Format(time.RFC3339Nano), at.Format("2006-01-02 15:04:05.000 UTC"), shown))
}

// text is a value as text, or what a pointer points to; nothing for nil.
func text(value any) string {
	v := reflect.Indirect(reflect.ValueOf(value))
	if !v.IsValid() {
		return ""
	}
	return fmt.Sprint(v.Interface())
}
