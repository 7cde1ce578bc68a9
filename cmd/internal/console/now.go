package console

import (
	"fmt"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/cmd/internal/series"
)

// nowView is the first page.
type nowView struct {
	Say     say
	Figures *figures
	// Causes are the causes that the page lists, each with its next step.
	Causes []causeRow
	Holds  []holdRow
	// Span is 15m or 24h; Delivered and Oldest are the plots of it.
	Span              string
	Delivered, Oldest plot
	// Rate is how many events arrive a second, Half and HalfUnit how long half of them take, Most how long 99 of 100 take.
	Rate, Half, HalfUnit, Most string
	// Peak is the highest rate of the plot. Waits is the age of the oldest that waits. Opened is how many investigations were
	// opened in 24 hours, as far back as this process looked.
	Peak, Waits string
	// Calm says that nothing is open and nothing is held back.
	Calm bool
}

// causeRow is a line of a list of causes.
type causeRow struct {
	cause
	// By is who gave up; empty for a topic.
	By string
	// Next is the next step, NextPath where it leads.
	Next, NextPath string
}

// holdRow is a line of a list of holds.
type holdRow struct {
	api.Hold
	Words holdWords
}

func showNow(v *visit) error {
	f, err := v.figures()
	if err != nil {
		return err
	}
	v.showNow(f)
	return nil
}

// figures are the newest ones of the person's sources.
func (v *visit) figures() (*figures, error) {
	f, _, failed := v.console.figures.of(v.ctx, v.person.Sources)
	if f != nil {
		return f, nil
	}
	if failed != nil {
		return nil, &httpapi.Error{Code: httpapi.Unavailable, Database: true, Message: "No figures could be read yet. Events are safe: they stay in the table until the database is back."}
	}
	return nil, &httpapi.Error{Code: httpapi.Unavailable, Message: "The first figures are being read. Load this page again in a second."}
}

// showNow fills the first page with figures.
func (v *visit) showNow(f *figures) {
	n := nowView{Say: sayNow(f), Figures: f, Span: "15m", Waits: ageText(seconds(f.Status.Outbox.OldestDueSeconds))}
	for _, c := range f.Causes {
		n.Causes = append(n.Causes, v.frame.rowOf(c))
	}
	for _, h := range f.Status.Outbox.Holds {
		if !h.Draining && len(n.Holds) < 10 {
			n.Holds = append(n.Holds, holdRow{h, wordsOf(h)})
		}
	}
	if span := v.param("span"); span != "" && span != "15m" && span != "24h" {
		v.frame.Wrong = fmt.Sprintf("Parameter span is %q; it must be 15m or 24h.", oneLine(span, 60))
	}
	points, step, span := f.Short, series.Short.Step(), "last 15 minutes"
	if v.param("span") == "24h" {
		n.Span, points, step, span = "24h", f.Long, series.Long.Step(), "last 24 hours"
	}
	n.Delivered, n.Oldest = deliveredPlot("p1", points, step, span), oldestPlot("p2", points, span)
	n.Rate, n.Peak = rates(f.Short)
	if n.Half = "–"; f.Known {
		n.Half, n.HalfUnit = latencyText(f.Half)
		most, unit := latencyText(f.Most)
		n.Most = most + " " + unit
	}
	n.Calm = n.Say.Mark == "fine" && f.Open == 0
	v.frame.View, v.frame.State, v.frame.Title, v.frame.AsOf = n, say{}, n.Say.Text, f.At
}

// rates are how many events arrived a second in the last minute, and at most in any.
func rates(points []point) (now, peak string) {
	const perMinute = 12
	var most, last float64
	for i := 0; i+perMinute <= len(points); i++ {
		var sum int64
		for _, p := range points[i : i+perMinute] {
			sum += p.Delivered
		}
		last = float64(sum) / (perMinute * series.Short.Step().Seconds())
		most = max(most, last)
	}
	return rate(last), rate(most)
}
