package httpapi

// ErrorBody is what answers have as error.
var ErrorBody any = errorBody{}
