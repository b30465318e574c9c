// Package wakeup notices the two things after which every server is worth
// another look: the machine resumed from sleep, and the network came back.
//
// It listens to three sources, each of which may be missing:
//
//   - logind on the system bus says when the machine has resumed (Linux, BSD).
//   - The clocks say it everywhere: the time of day that went by without the
//     machine being awake was spent asleep. They are compared every 30 s where
//     there is no logind or where it went away, else every 5 min.
//   - The kernel says when an interface gets an address (Linux).
//
// What two sources say of one resume is reported once, and so is a burst of
// new addresses, after it has settled.
//
// # Concurrency contract
//
// [New] starts nothing. [Watcher.Run] blocks, calls notify from its own goroutine
// only, and has joined what it started when it returns; it is called once. While
// nothing happens it wakes up to compare the clocks, and every 5 min to look for a
// logind that is missing.
//
// # What it does not do
//
// It does not check whether the network leads anywhere, and does not see a
// network that comes back without a new address: a cable pulled out for a moment
// where addresses are fixed, or a new route alone. Reports are hints; whoever
// gets them must bear one too many.
package wakeup
