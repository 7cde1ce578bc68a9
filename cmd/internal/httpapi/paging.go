package httpapi

import (
	"math"
	"strconv"

	"github.com/postrider/postrider/internal/dlq"
)

// page is which part of a list is asked for: by page and page_size, or by limit and offset.
type page struct {
	Page, Size, Offset int
}

// maxOffset bounds how far a list may be paged through by numbers; past it, after goes on for ever.
const maxOffset = dlq.MaxOffset

// page reads page and page_size, or limit and offset.
func (s *Services) page(r *Request) (p page, err error) {
	given := map[string]bool{}
	for _, name := range []string{"page", "page_size", "limit", "offset"} {
		text, err := r.text(name)
		if err != nil {
			return p, err
		}
		given[name] = text != ""
	}
	if (given["page"] || given["page_size"]) && (given["limit"] || given["offset"]) {
		return p, refuse(Validation, "give page and page_size, or limit and offset, not both")
	}
	if given["limit"] || given["offset"] {
		if p.Size, err = r.number("limit", s.PageSize, 1, s.PageSizeMax); err == nil {
			p.Offset, err = r.number("offset", 0, 0, maxOffset)
		}
		p.Page = p.Offset/max(p.Size, 1) + 1
		return p, err
	}
	if p.Size, err = r.number("page_size", s.PageSize, 1, s.PageSizeMax); err != nil {
		return p, err
	}
	if p.Page, err = r.number("page", 1, 1, maxOffset); err != nil {
		return p, err
	}
	if p.Offset = (p.Page - 1) * p.Size; p.Offset > maxOffset {
		return p, refuse(Validation, "page %d of %d items is past the %d items that can be paged through by numbers; go on with after", p.Page, p.Size, maxOffset)
	}
	return p, nil
}

// size reads limit or, meaning the same, page_size.
func (s *Services) size(r *Request) (int, error) {
	n, err := r.number("limit", 0, 1, s.PageSizeMax)
	if err != nil {
		return 0, err
	}
	m, err := r.number("page_size", 0, 1, s.PageSizeMax)
	switch {
	case err != nil:
		return 0, err
	case n != 0 && m != 0:
		return 0, refuse(Validation, "give limit or page_size, not both")
	case n+m == 0:
		return s.PageSize, nil
	}
	return n + m, nil
}

// place reads a parameter that is a positive number; 0 where it is absent.
func (r *Request) place(name string) (int64, error) {
	text, err := r.text(name)
	if err != nil || text == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, refuse(Validation, "parameter %s is %q; it must be a whole number from 1 to %d", name, shown(text), int64(math.MaxInt64))
	}
	return n, nil
}

// row returns a part of the path that is the number of a row.
func (r *Request) row(name string) (int64, error) {
	n, err := strconv.ParseInt(r.PathValue(name), 10, 64)
	if err != nil || n < 1 {
		return 0, refuse(Validation, "%s is %q; it must be a whole number from 1 to %d", name, shown(r.PathValue(name)), int64(math.MaxInt64))
	}
	return n, nil
}

func notAPlace(name, text string) error {
	return refuse(Validation, "parameter %s is %q; it must be the next of an earlier answer", name, shown(text))
}
