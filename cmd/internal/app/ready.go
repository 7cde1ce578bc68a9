package app

import _ "embed"

// readyQuery asks what readiness needs of the database. That it answers is not enough: a login that lost its role
// would say ready and carry nothing.
//
//go:embed queries/ready.sql
var readyQuery string
