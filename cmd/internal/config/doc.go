// Package config reads Postrider's settings. Every setting is a key section.name, for example
// outbox.batch_size, with three ways to give it: a flag (--outbox-batch-size), the environment
// (OUTBOX_BATCH_SIZE) and one YAML file, in which names are nested under their sections. A flag
// wins over the environment, the environment over the file, the file over the default.
//
// Rules for single topics are a list, topics, of the file alone: they have no flags and no variables.
// A rule's values replace the values of the sections for the topics that the rule matches.
//
// Mistakes are found when the settings are read, all at once, each with its place: an unknown
// key, a value out of range, a variable that looks like a setting but is none. Secrets are never
// part of a message or of a printed Config.
package config
