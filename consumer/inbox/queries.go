package inbox

import (
	_ "embed"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed schema.sql
var schemaSQL string

//go:embed queries/insert_messages.sql
var insertSQL string

//go:embed queries/purge.sql
var purgeSQL string

// inSchema puts the schema before the names of a script; an empty one leaves them to the search path.
func inSchema(sql, schema string) string {
	if schema != "" {
		schema = pgx.Identifier{schema}.Sanitize() + "."
	}
	return strings.ReplaceAll(sql, "/*schema*/", schema)
}
