package app

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/doctor"
)

// Examination says what Examine looks at beside the settings.
type Examination struct {
	// Pre leaves out what can only be looked at when the schema is there. Defaults to false.
	Pre bool
	// Role is the role whose rights the user of the database needs; see doctor.Roles. Defaults to any of them.
	Role string
	// ProduceTopic is a topic that a few records are written to, to time one. Defaults to "": none is written.
	ProduceTopic string
}

// Examine makes the checks of postrider doctor with connections of its own. A database that does not answer is a finding.
func Examine(ctx context.Context, c config.Config, e Examination) (doctor.Report, error) {
	examined := doctor.Config{Settings: c, Pre: e.Pre, Role: e.Role, Connections: Connections(c), ProduceTopic: e.ProduceTopic}
	var pool *pgxpool.Pool
	if c.Database.URL != "" || !c.HasSources() { // otherwise there is no desk
		var err error
		if pool, err = OpenAny(ctx, c.Database, 2); err == nil {
			defer pool.Close()
			examined.Database = pool
		} else {
			examined.DatabaseError = err
		}
	}
	if len(c.Kafka.Brokers) > 0 {
		client, err := doctor.OpenKafka(c.Kafka)
		if err != nil {
			return doctor.Report{}, fmt.Errorf("make a client of Kafka: %w", err)
		}
		defer client.Close()
		examined.Kafka = client
	}
	report := doctor.Examine(ctx, examined)
	if !e.Pre {
		var desk *Services
		if pool != nil {
			var err error
			if desk, err = NewServices(pool, c); err != nil {
				return doctor.Report{}, err
			}
		}
		addSources(ctx, c, desk, &report)
	}
	return report, nil
}

// examineOwn is Examine for what this process does. An examination that was given up is an error: its findings would be
// about that.
func (a *App) examineOwn(ctx context.Context) (doctor.Report, error) {
	report, err := Examine(ctx, a.settingsNow(), Examination{Role: "relay"})
	if err == nil {
		err = ctx.Err()
	}
	return report, err
}
