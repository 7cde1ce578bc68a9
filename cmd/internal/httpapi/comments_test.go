package httpapi_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// module is what our packages' paths begin with.
const module = "github.com/postrider/postrider/"

// comments are what the source of our packages says about types: the comments of types and their fields, and the constants
// of named texts.
type comments struct {
	read map[string]bool
	// of are comments by type and by field: internal/dlq.Plan, internal/dlq.Plan.Items.
	of map[string]string
	// shared are the fields with a comment for several.
	shared map[string]bool
	// words are the values of the exported constants of a type, in their order.
	words map[string][]string
}

// typeName is a type's name for comments: internal/dlq.Plan.
func typeName(t reflect.Type) string {
	name, _, _ := strings.Cut(t.Name(), "[")
	return strings.TrimPrefix(t.PkgPath(), module) + "." + name
}

// packageOf reads the package of a type's name, once.
func (c *comments) packageOf(name string) error {
	pkg := name[:strings.LastIndex(name, ".")]
	if c.read[pkg] {
		return nil
	}
	c.read[pkg] = true
	files, err := filepath.Glob(filepath.Join("..", "..", "..", filepath.FromSlash(pkg), "*.go"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there is no package %s", pkg)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if d, is := decl.(*ast.GenDecl); is {
				c.readDecl(pkg, set, d)
			}
		}
	}
	return err
}

func (c *comments) readDecl(pkg string, set *token.FileSet, d *ast.GenDecl) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			name, doc := pkg+"."+s.Name.Name, s.Doc
			if doc == nil {
				doc = d.Doc
			}
			c.of[name] = doc.Text()
			if body, is := s.Type.(*ast.StructType); is {
				c.readFields(name, set, body)
			}
		case *ast.ValueSpec:
			of, named := s.Type.(*ast.Ident)
			if d.Tok != token.CONST || !named {
				continue
			}
			for i, v := range s.Values { // what is not exported is not shown
				if text, is := v.(*ast.BasicLit); is && text.Kind == token.STRING && s.Names[i].IsExported() {
					if word, err := strconv.Unquote(text.Value); err == nil && word != "" {
						c.words[pkg+"."+of.Name] = append(c.words[pkg+"."+of.Name], word)
					}
				}
			}
		}
	}
}

// readFields reads the comments of fields. One without a comment of its own shares that of the field on the line before.
func (c *comments) readFields(name string, set *token.FileSet, body *ast.StructType) {
	var shared []string // fields with the comment of the first
	text, line := "", 0
	for _, f := range body.Fields.List {
		at := set.Position(f.Pos()).Line
		if f.Doc != nil || at != line+1 {
			text, shared = f.Doc.Text(), nil
		}
		line = set.Position(f.End()).Line
		for _, n := range f.Names {
			c.of[name+"."+n.Name] = text
			if shared = append(shared, name+"."+n.Name); len(shared) > 1 {
				c.shared[shared[0]], c.shared[name+"."+n.Name] = true, true
			}
		}
	}
}

var (
	identifier = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]*\b`)
	word       = regexp.MustCompile(`^[\w/]+`)
	null       = regexp.MustCompile(`\bnil\b`)
	// several is how a comment begins that is about several fields.
	several = regexp.MustCompile(`^((?:\w+, )*\w+ and \w+) `)
	// goName is a name that only a reader of the source can look up.
	goName = regexp.MustCompile(`\b[A-Za-z]+\.[A-Z]\w*|\b[A-Z][a-z0-9]+[A-Z]\w*`)
	// known are names of that form that everybody can look up.
	known = []string{"PostgreSQL", "SmallRye"}
)

// description is the comment of a type or of a field, as readers of the API understand it: names are what JSON calls the
// fields that the comment may name. It is the first paragraph: others are for readers of the source. A comment that begins
// with the name of what it is about begins with what is said of it.
func (c *comments) description(of string, names map[string]string, words ...string) (string, error) {
	text, _, _ := strings.Cut(c.of[of], "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return "", fmt.Errorf("%s has no comment", of)
	}
	own := of[strings.LastIndex(of, ".")+1:]
	_, field := names[own]
	if c.shared[of] {
		subjects := several.FindStringSubmatch(text)
		if subjects == nil || !slices.Contains(identifier.FindAllString(subjects[1], -1), own) {
			return "", fmt.Errorf("%s shares a comment that does not begin with its name and the others (A and B are): give it one of its own", of)
		}
	}
	for _, verb := range []string{" is ", " are "} {
		text = strings.TrimPrefix(text, own+verb)
	}
	if !field {
		text = strings.TrimPrefix(text, own+" ")
	}
	text = null.ReplaceAllString(text, "null")
	text = identifier.ReplaceAllStringFunc(text, func(own string) string {
		if name, is := names[own]; is {
			words = append(words, name)
			return name
		}
		return own
	})
	plain := text
	for _, k := range known {
		plain = strings.ReplaceAll(plain, k, "")
	}
	if name := goName.FindString(plain); name != "" {
		return "", fmt.Errorf("the comment of %s names %s, which readers of the API cannot look up: say it in words", of, name)
	}
	if first := word.FindString(text); slices.Contains(words, first) || strings.Contains(first, "/") {
		return text, nil
	}
	return strings.ToUpper(text[:1]) + text[1:], nil
}
