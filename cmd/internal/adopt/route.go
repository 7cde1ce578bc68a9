package adopt

import (
	"fmt"
	"strings"

	"github.com/postrider/postrider/cmd/internal/debezium"
)

// SQL returns the topic as an SQL expression over the text of the column.
func (r Route) SQL(column string) (string, error) {
	pattern, replacement, err := debezium.PostgresRoute(r.Regex, r.Replacement)
	if err != nil {
		return "", fmt.Errorf("%w; say the topic with --topic-sql", err)
	}
	whole := "^(?:" + pattern + ")$"
	if before, ok := strings.CutSuffix(replacement, `\1`); ok && pattern == "("+debezium.AnyText+"*)" && !strings.Contains(before, `\`) {
		// The usual one. It fits every name of a topic.
		return "(" + literalSQL(before) + " || " + column + ")", nil
	}
	return fmt.Sprintf("case when %s ~ %s then regexp_replace(%s, %s, %s) else %s end",
		column, literalSQL(whole), column, literalSQL(whole), literalSQL(replacement), column), nil
}
