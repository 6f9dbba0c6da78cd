package main

import (
	"net/http"
	"sync/atomic"
)

// requests counts how informers began: they list at version 0, or by a watch-list.
type requests struct {
	lists, watchLists atomic.Int64
}

type counting struct {
	requests *requests
	next     http.RoundTripper
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return counting{r, next}
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	switch {
	case query.Get("sendInitialEvents") == "true":
		c.requests.watchLists.Add(1)
	case query.Get("watch") == "" && query.Get("resourceVersion") == "0":
		c.requests.lists.Add(1)
	}
	return c.next.RoundTrip(request)
}

func (r *requests) count() map[string]int64 {
	return map[string]int64{"lists": r.lists.Load(), "watchLists": r.watchLists.Load()}
}
