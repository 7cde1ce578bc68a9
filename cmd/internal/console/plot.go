package console

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
)

// Plots are drawn here, as SVG without script and without styles of their own. Nothing from outside is in them: figures and
// words of ours. Each has a description in words, and a table.

// point is what a plot has of a step of time.
type point struct {
	// At is the beginning of the step.
	At time.Time
	// Delivered is how many events arrived, Opened how many investigations were opened.
	Delivered, Opened int64
	// Oldest is the greatest age of the oldest event that waited, in seconds; NaN where the process did not look. Waiting is the
	// largest number of events that waited; -1 then.
	Oldest  float64
	Waiting int64
}

// pointsOf are all steps of a series, also steps without a figure.
func pointsOf(s api.Series) []point {
	var points []point
	known := s.Points
	for at := s.From; at.Before(s.To); at = at.Add(seconds(s.StepSeconds)) {
		p := point{At: at, Oldest: math.NaN(), Waiting: -1}
		if len(known) > 0 && known[0].At.Equal(at) {
			p.Delivered, p.Opened = known[0].Delivered, known[0].GivenUp
			if known[0].OldestDueSeconds != nil {
				p.Oldest, p.Waiting = *known[0].OldestDueSeconds, *known[0].Waiting
			}
			known = known[1:]
		}
		points = append(points, p)
	}
	return points
}

// plot is a drawn plot with its figures.
type plot struct {
	SVG template.HTML
	// Head and Rows are the same as a table.
	Head []string
	Rows [][]string
}

const (
	plotWidth = 900 // of the data; it is stretched to the page
	sparkBars = 24
)

// spark draws how many investigations were opened in each of 24 hours. Its scale begins at 5: one alone is no mountain.
func spark(hours [24]int64) template.HTML {
	var total, recent, most int64
	for i, n := range hours {
		total += n
		most = max(most, n)
		if i >= len(hours)-3 {
			recent += n
		}
	}
	words := fmt.Sprintf("%s in 24 hours, %s of them in the last 3", count(total), count(recent))
	switch {
	case total == 0:
		words = "none in 24 hours"
	case total == hours[23]:
		words = fmt.Sprintf("%s in the last hour, none before", count(total))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="spark" role="img" width="104" height="24" viewBox="0 0 104 24" aria-label="%s"><title>%[1]s</title>`, words)
	scale := float64(max(most, 5))
	for i, n := range hours {
		class, height := "zero", 1.0
		if n > 0 {
			if class, height = "", max(2, 24*float64(n)/scale); i >= len(hours)-3 && n*4 >= most {
				class = "hot"
			}
		}
		fmt.Fprintf(&b, `<rect class="%s" x="%.2f" y="%.1f" width="3.33" height="%.1f"/>`, class, float64(i)*104/sparkBars, 24-height, height)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// deliveredPlot draws what arrived each second, and under it what was opened.
func deliveredPlot(id string, points []point, step time.Duration, span string) plot {
	perSecond := make([]float64, len(points))
	var most float64
	for i, p := range points {
		perSecond[i] = float64(p.Delivered) / step.Seconds()
	}
	perSecond = smooth(perSecond, int(15*time.Second/step))
	for _, v := range perSecond {
		most = max(most, v)
	}
	bars, barName := perBar(points, step)
	var mostBar float64
	total := int64(0)
	for _, n := range bars {
		mostBar = max(mostBar, float64(n))
		total += n
	}
	words := "nothing arrived."
	if most > 0 {
		words = fmt.Sprintf("at most %s events a second arrived, now %s.", rate(most), rate(perSecond[len(perSecond)-1]))
	}
	if total > 0 {
		words += fmt.Sprintf(" %s were given up.", count(total))
	} else {
		words += " None were given up."
	}
	d := newDrawing(id, "Delivered and given up, "+span, strings.ToUpper(words[:1])+words[1:])
	top := d.axis(24, 92, most, 2)
	d.line(24, 92, perSecond, top)
	d.note(10, "Delivered each second")
	lower := d.axis(152, 46, mostBar, 2)
	d.bars(152, 46, bars, lower)
	d.note(141, "Given up each "+barName)
	if total == 0 {
		d.text("50%", 190, "middle", "", "none")
	}
	d.hours(points)
	return plot{SVG: d.end(), Head: []string{"From", "Delivered each second", "Given up"}, Rows: tableOf(points, func(some []point) []string {
		var delivered, opened int64
		for _, p := range some {
			delivered += p.Delivered
			opened += p.Opened
		}
		return []string{rate(float64(delivered) / (step.Seconds() * float64(len(some)))), count(opened)}
	})}
}

// oldestPlot draws how old the oldest event was that waited.
func oldestPlot(id string, points []point, span string) plot {
	var most float64
	values := make([]float64, len(points))
	known := false
	for i, p := range points {
		if values[i] = p.Oldest; !math.IsNaN(p.Oldest) {
			most, known = max(most, p.Oldest), true
		}
	}
	unit, name := 1.0, "Seconds"
	switch {
	case most >= 2*3600:
		unit, name = 3600, "Hours"
	case most >= 120:
		unit, name = 60, "Minutes"
	}
	for i := range values {
		values[i] /= unit
	}
	words := "Nothing looked yet: these figures begin when the process does."
	if known {
		words = "At most " + ageText(seconds(most)) + "."
	}
	d := newDrawing(id, "Age of the oldest event that waits, "+span, words)
	top := d.axis(24, 174, max(most/unit, 1), 3)
	d.line(24, 174, values, top)
	d.note(10, name)
	if !known {
		d.text("50%", 110, "middle", "", "no figures yet")
	} else if last := values[len(values)-1]; !math.IsNaN(last) {
		y := 24 + 174*(1-last/top)
		fmt.Fprintf(&d.b, `<circle class="dot" cx="100%%" cy="%.1f" r="4"/>`, y)
		d.text("100%", max(y-9, 12), "end", "now halo", ageText(seconds(last*unit)))
	}
	d.hours(points)
	return plot{SVG: d.end(), Head: []string{"From", "Oldest", "Most waiting"}, Rows: tableOf(points, func(some []point) []string {
		oldest, waiting := math.NaN(), int64(-1)
		for _, p := range some {
			if math.IsNaN(oldest) || p.Oldest > oldest {
				oldest = p.Oldest
			}
			waiting = max(waiting, p.Waiting)
		}
		if math.IsNaN(oldest) {
			return []string{"–", "–"}
		}
		return []string{ageText(seconds(oldest)), count(waiting)}
	})}
}

// perBar sums what was opened by the minute, or by the hour where the points are coarse.
func perBar(points []point, step time.Duration) ([]int64, string) {
	span, name := time.Minute, "minute"
	if step > time.Minute {
		span, name = time.Hour, "hour"
	}
	group := max(int(span/step), 1)
	var bars []int64
	for i, p := range points {
		if i%group == 0 {
			bars = append(bars, 0)
		}
		bars[len(bars)-1] += p.Opened
	}
	return bars, name
}

// tableOf makes at most 15 rows of points. They begin when the points do, which is seldom at a whole minute.
func tableOf(points []point, row func([]point) []string) [][]string {
	var rows [][]string
	group, layout := max((len(points)+14)/15, 1), "15:04"
	if slices.ContainsFunc(points, func(p point) bool { return p.At.Second() != 0 }) {
		layout = "15:04:05"
	}
	for i := 0; i < len(points); i += group {
		rows = append(rows, append([]string{points[i].At.UTC().Format(layout)}, row(points[i:min(i+group, len(points))])...))
	}
	return rows
}

// smooth is the mean of each value and the n-1 before it.
func smooth(values []float64, n int) []float64 {
	out := make([]float64, len(values))
	for i := range values {
		from, sum := max(0, i-max(n, 1)+1), 0.0
		for _, v := range values[from : i+1] {
			sum += v
		}
		out[i] = sum / float64(i+1-from)
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// drawing is a plot that is being drawn.
type drawing struct{ b strings.Builder }

func newDrawing(id, title, words string) *drawing {
	d := &drawing{}
	fmt.Fprintf(&d.b, `<svg class="plot" role="img" height="220" aria-labelledby="%[1]st %[1]sd"><title id="%[1]st">%[2]s</title><desc id="%[1]sd">%[3]s</desc>`,
		id, template.HTMLEscapeString(title), template.HTMLEscapeString(words))
	return d
}

// axis draws a base and lines above it, and returns the value of the uppermost.
func (d *drawing) axis(y, height, most float64, lines int) (top float64) {
	step := niceStep(most / float64(lines))
	top = step * float64(lines)
	for i := range lines + 1 {
		at := y + height - height*float64(i)/float64(lines)
		class := "grid"
		if i == 0 {
			class = "base"
		}
		fmt.Fprintf(&d.b, `<line class="%s" x1="0" x2="100%%" y1="%.1f" y2="%.1[2]f"/>`, class, at)
		d.text("-8", at+4, "end", "", strconv.FormatFloat(step*float64(i), 'f', -1, 64))
	}
	return top
}

// niceStep is the next of 1, 2, 2.5 and 5, times a power of ten.
func niceStep(least float64) float64 {
	if least <= 0 || math.IsNaN(least) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, f := range []float64{1, 2, 2.5, 5, 10} {
		if f*power >= least-1e-9 {
			return f * power
		}
	}
	return 10 * power
}

// line draws values; where there is none, there is no line.
func (d *drawing) line(y, height float64, values []float64, top float64) {
	fmt.Fprintf(&d.b, `<svg x="0" y="%.0f" width="100%%" height="%.0f" viewBox="0 0 %d %.0[2]f" preserveAspectRatio="none">`, y, height, plotWidth)
	place := func(i int) string {
		x := plotWidth * float64(i) / float64(max(len(values)-1, 1))
		return fmt.Sprintf("%.1f %.1f", x, height*(1-min(values[i]/top, 1)))
	}
	for from := 0; from < len(values); {
		if math.IsNaN(values[from]) {
			from++
			continue
		}
		to := from
		for to < len(values) && !math.IsNaN(values[to]) {
			to++
		}
		var path []string
		for i := from; i < to; i++ {
			path = append(path, place(i))
		}
		x := func(i int) float64 { return plotWidth * float64(i) / float64(max(len(values)-1, 1)) }
		fmt.Fprintf(&d.b, `<path class="area" d="M%s L%.1f %.0f %.1f %.0[3]fZ"/><path class="line" d="M%[1]s"/>`, strings.Join(path, " "), x(to-1), height, x(from))
		from = to
	}
	d.b.WriteString("</svg>")
}

func (d *drawing) bars(y, height float64, values []int64, top float64) {
	fmt.Fprintf(&d.b, `<svg x="0" y="%.0f" width="100%%" height="%.0f" viewBox="0 0 %d %.0[2]f" preserveAspectRatio="none"><path class="bars" d="`, y, height, plotWidth)
	width := plotWidth / float64(max(len(values), 1))
	for i, n := range values {
		if n > 0 {
			h := max(1.5, height*float64(n)/top)
			fmt.Fprintf(&d.b, "M%.1f %.0fv-%.1fh%.1fv%.1[3]fz", width*float64(i)+1, height, h, max(width-3, 1))
		}
	}
	d.b.WriteString(`"/></svg>`)
}

func (d *drawing) note(y float64, text string) { d.text("-40", y, "start", "note", text) }

// text writes words of ours; x is a number or a share.
func (d *drawing) text(x string, y float64, anchor, class, text string) {
	fmt.Fprintf(&d.b, `<text class="%s" x="%s" y="%.1f" text-anchor="%s">%s</text>`, class, x, y, anchor, template.HTMLEscapeString(text))
}

// hours writes four times under the plot.
func (d *drawing) hours(points []point) {
	if len(points) == 0 {
		return
	}
	for i, anchor := range []string{"start", "middle", "middle", "end"} {
		at := points[min(i*len(points)/3, len(points)-1)].At
		d.text(fmt.Sprintf("%.2f%%", float64(i)*100/3), 216, anchor, "", at.UTC().Format("15:04"))
	}
}

func (d *drawing) end() template.HTML {
	d.b.WriteString("</svg>")
	return template.HTML(d.b.String())
}

// share is a part of a bar.
type share struct {
	// Class is its colour: fine, accent, failing, quiet or rest. Name says what it is.
	Class, Name string
	Count       int64
	// Of is how many there are in all, where the legend says it; 0 does not.
	Of int64
}

// bar draws parts of a whole. What came back is hatched, so that it is not told by its colour alone.
func bar(parts []share) template.HTML {
	var total int64
	var words []string
	for _, p := range parts {
		total += p.Count
		if p.Count > 0 {
			words = append(words, count(p.Count)+" "+strings.ToLower(p.Name))
		}
	}
	label := fmt.Sprintf("Of %s: %s", count(total), strings.Join(words, ", "))
	if total == 0 {
		label = "None"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bar" role="img" aria-label="%s" height="18"><title>%[1]s</title><rect class="f-rest" x="0" y="0" width="100%%" height="18" rx="3"/>`, label)
	at := 0.0
	for _, p := range parts {
		if p.Count <= 0 || total == 0 {
			continue
		}
		width := 100 * float64(p.Count) / float64(total)
		fmt.Fprintf(&b, `<rect class="f-%s" x="%.2f%%" width="%.2f%%" y="0" height="18"/>`, p.Class, at, width)
		if p.Class == "failing" {
			fmt.Fprintf(&b, `<rect fill="url(#hatch)" x="%.2f%%" width="%.2f%%" y="0" height="18"/>`, at, width)
		}
		if at += width; at < 99.99 {
			fmt.Fprintf(&b, `<line class="cut" x1="%.2f%%" x2="%.2[1]f%%" y1="0" y2="18"/>`, at)
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
