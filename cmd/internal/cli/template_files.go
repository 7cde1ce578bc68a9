package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/postrider/postrider/internal/tasks/task"
)

// templateFile is a template as it was read.
type templateFile struct {
	name     string
	template *task.Template
	err      error
}

// templateFiles reads the files, and every .yaml, .yml and .json file in the directories, however deep.
func templateFiles(paths []string) ([]templateFile, error) {
	var names []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, usagef("%w", err)
		}
		if !info.IsDir() {
			names = append(names, path)
			continue
		}
		before := len(names)
		err = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))) {
				names = append(names, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(names) == before {
			return nil, usagef("there is no .yaml, .yml or .json file in %s", path)
		}
	}
	files := make([]templateFile, len(names))
	seen := map[string]string{}
	for i, name := range names {
		f := &files[i]
		f.name = name
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if f.template, f.err = task.Parse(name, raw); f.err != nil {
			continue
		}
		if first, again := seen[f.template.String()]; again && first != name {
			f.err = fmt.Errorf("%s: %s is in %s, too; give one of them another version", name, f.template, first)
		}
		seen[f.template.String()] = name
	}
	return files, nil
}

// allValid joins the mistakes in files.
func allValid(files []templateFile) error {
	var wrong []error
	for _, f := range files {
		if f.err != nil {
			wrong = append(wrong, f.err)
		}
	}
	return errors.Join(wrong...)
}

// inEnvironment applies an environment to the templates that have it; at least one must.
func inEnvironment(all []*task.Template, environment string) error {
	if environment == "" {
		return nil
	}
	found := false
	for i, t := range all {
		if _, ok := t.Environments[environment]; !ok {
			continue
		}
		found = true
		var err error
		if all[i], err = t.In(environment); err != nil {
			return err
		}
	}
	if !found {
		return usagef("--environment is %q, which none of the templates has under environments", environment)
	}
	return nil
}
