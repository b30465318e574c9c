// Package singleton lets a user have one funnel and no second: it finds the
// runtime folder, takes the lock in it, and speaks the greeting on the socket
// there, on both ends.
//
//	first start:  RuntimeDir → Claim (the lock) → Listen (socket, pid, json) → Guard … → Close
//	second start: RuntimeDir → Claim → greets the first → *RunningError, or takes over
//	bridge, CLI:  Dial, DialOrStart → Conn
//
// # Who is the one
//
// Whoever holds funnel.lock, and nobody else. The system releases that lock when
// its holder dies, however it dies; the file stays, for a lock on a file that may
// be unlinked is no lock. The socket is removed, made and chmodded only under the
// lock. funnel.pid and funnel.json are information for others and decide nothing:
// a process is ended only if the lock is held, and the process that funnel.json
// names has that pid, that start time and that program.
//
// # Concurrency contract
//
// An [Instance] may be used from several goroutines; its Close is idempotent.
// [Instance.Guard], [Claim], [DialOrStart] and [WaitGone] block until done or
// until their context ends, and leave no goroutine behind. A [Conn] is a net.Conn
// whose reads have to go through its R, from one goroutine at a time.
//
// # What it does not do
//
// It spawns no process (DialOrStart is told how), serves no connection beyond
// the greeting, keeps no list of children and knows nothing of what is behind
// the socket.
package singleton
