package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// People know better than a rule what has one cause: they merge causes, and split them.

// mergeCause puts a group into another, which is given by its id or by the address of its page.
func mergeCause(v *visit) (string, error) {
	back := "/causes/" + v.id()
	into := strings.TrimSpace(v.FormValue("into"))
	into = into[strings.LastIndexByte(into, '/')+1:]
	other, err := api.ParseID(into)
	if err != nil {
		return back, &httpapi.Error{Code: httpapi.Validation, Message: fmt.Sprintf("Nothing was merged: %s names no cause. Give the address of its page, or its id", quoted(oneLine(into, 60)))}
	}
	if this, err := api.ParseID(v.PathValue("id")); err == nil && this == other {
		return back, &httpapi.Error{Code: httpapi.Validation, Message: "Nothing was merged: this is the cause itself. Give the address of the page of another one, or its id"}
	}
	done, err := ask[api.MergedGroup](v, http.MethodPost, "/groups/"+v.id()+"/merge", nil, map[string]any{"into": into})
	if err != nil {
		return back, noCause(err, into)
	}
	left := ""
	if done.Left > 0 {
		left = " " + count(done.Left) + " are still in the other one: merge them again."
	}
	v.say("%s here now.%s", some(done.Moved, "investigation is", "investigations are"), left)
	return "/causes/" + done.Into.String(), nil
}

// splitCause takes investigations that were picked out of their group.
func splitCause(v *visit) (string, error) {
	back := ownPath("/investigations?" + cmp.Or(v.FormValue("in"), url.Values{"group": {v.PathValue("id")}}.Encode()))
	if len(v.PostForm["id"]) == 0 {
		return back, errNothingPicked
	}
	made, err := ask[api.List[api.SplitGroup]](v, http.MethodPost, "/groups/"+v.id()+"/split", nil, map[string]any{"ids": v.PostForm["id"]})
	if err != nil {
		return back, err
	}
	v.say("They have a cause of their own now.")
	if len(made.Items) == 1 {
		return "/causes/" + made.Items[0].UUID.String(), nil
	}
	return "/causes", nil
}
