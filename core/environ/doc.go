// Package environ makes the environment that servers are started with.
//
// A program started by a desktop has a poor one: its PATH lacks what the user's
// shell adds (nvm, ~/.local/bin, Homebrew), so "npx" is not found although it
// works in every terminal. A program started by one client's session has one
// that is too rich: it carries that session's variables. This package asks the
// login shell ([LoginShell]), merges search paths ([MergePath]), adds the places
// where tools usually are ([AddUsualPlaces]), looks commands up in the result
// ([LookPath]), and reduces a session's environment to what belongs to the user
// ([ForBridgeStart]).
//
// # Concurrency contract
//
// An [Env] is immutable and may be shared. The functions keep no state.
// [LoginShell] blocks for 5 s at most and leaves no process and no goroutine.
//
// # What it does not do
//
// It never changes the environment of this process, caches nothing, and does
// not log: values of variables may be secrets and appear in no error.
package environ
