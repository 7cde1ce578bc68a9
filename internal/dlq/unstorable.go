package dlq

// Unstorable is the reduced form of a letter that the store refused, so that it is recorded all the same: its identity,
// its exact bytes and the refusal. Headers, times and texts are left out, because one of them may be the cause; they are
// in the record of the dead-letter topic.
func Unstorable(l Letter, refusal error) Letter {
	r := Letter{
		ID:             l.ID, // kept, so that a copy of the letter is still recognised
		Source:         l.Source,
		Dialect:        DialectUnknown,
		DLQTopic:       l.DLQTopic,
		DLQPartition:   l.DLQPartition,
		DLQOffset:      l.DLQOffset,
		DLQRecordAt:    l.DLQRecordAt,
		EventID:        l.EventID,
		Episode:        l.Episode,
		OutboxID:       l.OutboxID,
		SourceOutboxID: l.SourceOutboxID,
		HaltsKey:       l.HaltsKey,
		Key:            l.Key,
		KeyKind:        l.KeyKind,
		Payload:        l.Payload,
		PayloadKind:    l.PayloadKind,
		PayloadBytes:   l.PayloadBytes,
		ErrorCode:      CodeUnstorable,
		Subject:        l.Subject,
		Reason:         Unclassified,
		OriginalState:  l.OriginalState,
		Unstorable:     true,
	}
	if refusal != nil {
		r.ErrorMessage = storableText("the letter was refused by the database and is recorded without its headers: "+refusal.Error(), maxMessageBytes)
	}
	return r
}

// withoutBytes is the last form, for a letter whose very bytes are refused: they stay in the record of
// the dead-letter topic.
func withoutBytes(l Letter, refusal error) Letter {
	r := Unstorable(l, refusal)
	if r.Key != nil {
		r.Key, r.KeyKind = nil, Reference
	}
	if r.Payload != nil {
		r.Payload, r.PayloadKind = nil, Reference
	}
	return r
}
