package api

import (
	"errors"

	"github.com/google/uuid"
)

// WantID says what the text of an id must be.
const WantID = "a uuid of 36 characters, not all zeros"

var errID = errors.New("it must be " + WantID)

// ParseID reads an id. uuid.Parse also takes other spellings of a uuid, which are no ids of ours, and uuid.Nil, which stands
// for none. The error says what the text must be; callers say where it stands.
func ParseID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 || id == uuid.Nil {
		return uuid.Nil, errID
	}
	return id, nil
}
