package postgres

import (
	"testing"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// BenchmarkRecordLetters stores new letters in batches of the size that the collector polls.
func BenchmarkRecordLetters(b *testing.B) {
	const batch = 500
	store, err := NewStore(Config{Pool: pgtest.New(b).Pool(b)})
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		letters := make([]dlq.Letter, batch)
		for i := range letters {
			letters[i] = dlq.Decode(dlqtest.Event(n, 1))
			n++
		}
		if _, err := store.RecordLetters(b.Context(), letters); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "letters/s")
}
