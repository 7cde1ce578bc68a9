package console

import (
	"net/http"
	"strings"
)

// A look shows what is guarded: the bytes of a message. Each look is a row of the audit log. The form that asks for one leads
// to a page at the same address and leaves a ticket with the browser. The page takes the ticket and shows the bytes. So going
// back sends no form again, and an address that is loaded once more, or was kept, shows nothing without a new row.

// askToLook is a form that leads to the page of a look. anchor is the part of the page that shows it.
func askToLook(anchor string) func(*visit) (string, error) {
	return func(v *visit) (string, error) {
		v.console.cookies.look(v.writer, v.Request, v.URL.Path, v.FormValue("as"))
		return v.URL.RequestURI() + anchor, nil
	}
}

// lookOnce is the page of a look, which show makes: as is the way to show the payload. Without a ticket it leads to the page
// that has the form.
func lookOnce(parent string, show func(v *visit, as string) error) func(*visit) error {
	return func(v *visit) error {
		if v.Method == http.MethodGet && !isFragment(v.Request) {
			if as, asked := v.console.cookies.takeLook(v.writer, v.Request, v.URL.Path); asked {
				return show(v, as)
			}
		}
		return backTo(parent)(v)
	}
}

// backTo leads an address that shows something after a form to the page that has the form.
func backTo(parent string) func(*visit) error {
	return func(v *visit) error {
		to := parent + v.id()
		if v.URL.RawQuery != "" {
			to += "?" + v.URL.RawQuery
		}
		http.Redirect(v.writer, v.Request, to, http.StatusSeeOther)
		v.wrote = true
		return nil
	}
}

// look leaves the ticket for one look at a page with the browser.
func (c cookies) look(w http.ResponseWriter, r *http.Request, path, as string) {
	c.keep(w, r, lookCookie, path+"\x00"+cut(as, 20))
}

// takeLook takes that ticket, and reports whether there was one for the page.
func (c cookies) takeLook(w http.ResponseWriter, r *http.Request, path string) (as string, asked bool) {
	at, as, _ := strings.Cut(c.take(w, r, lookCookie), "\x00")
	return as, at == path
}
