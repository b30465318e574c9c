// Package config reads the user's configuration: JSON with comments and
// trailing commas, checked key by key, with every finding tied to its line and
// column.
//
// What is wrong is kept as small as it is. A key nobody knows is a warning; a
// wrong setting of the whole program is a warning too, and the default holds; a
// wrong server entry makes that one server unusable (its Problem says what is
// wrong and where) and leaves the others alone; only a file that cannot be read
// as JSON at all is an error, a [*ParseError], upon which the caller keeps the
// configuration it has.
//
// # Where values come from
//
// [Load] reads two files: the original project's as a base, and the main one on
// top of it. A server of the main file replaces the base's server of the same
// name whole; other settings are laid over each other key by key. Variables
// (${NAME}, ${NAME:-default}, ${NAME:default}) are expanded once, while
// reading; what they expand to is never looked at again. $${ stands for ${.
//
// # Concurrency contract
//
// A [Config] and all it holds is immutable once [Parse] or [Load] returned it:
// share it freely, replace it whole.
//
// # What it does not do
//
// It writes no file, ever; it starts no server; it does not read the env files
// of servers while loading ([ReadEnvFile] does, at each start of a server); it
// does not log what it found, the caller does.
package config
