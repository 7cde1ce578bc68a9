package api

import (
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/task"
)

// TemplateOf is a version of a template as it is shown.
func TemplateOf(t ledger.Template) ledger.Template {
	inYears(&t.CreatedAt, &t.UpdatedAt)
	return t
}

// NamespaceOf is a namespace as it is shown.
func NamespaceOf(n ledger.Namespace) ledger.Namespace {
	inYears(&n.CreatedAt, &n.UpdatedAt)
	return n
}

// ValidatedTemplate is a file of a template after it was checked.
type ValidatedTemplate struct {
	// File is its name.
	File string `json:"file"`
	// Template is namespace/name@version; null where the file cannot be read so far.
	Template *string `json:"template"`
	// Problems are what is wrong with it; never null.
	Problems []task.Problem `json:"problems"`
}
