package config

import "fmt"

// checkPages compares the sizes of pages.
func (c *Config) checkPages() []error {
	size, _ := named("dlq.page_size_default")
	if limit, _ := named("dlq.page_size_max"); c.DLQ.PageSizeDefault > c.DLQ.PageSizeMax {
		return []error{fmt.Errorf("%s is %d (%s), more than %s, which is %d (%s); it must not be more",
			size, c.DLQ.PageSizeDefault, c.origin(size), limit, c.DLQ.PageSizeMax, c.origin(limit))}
	}
	return nil
}
