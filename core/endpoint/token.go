package endpoint

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/google/renameio/v2/maybe"
)

// tokenSize is how many random bytes a token of ours has.
const tokenSize = 32

// soundToken is what a token may look like: it has to fit into a path as it is, and not
// be guessed.
var soundToken = regexp.MustCompile(`^[A-Za-z0-9._~-]{16,256}$`)

// TokenError says that the file with the token cannot be used. It is not replaced: the
// user may have put something there.
type TokenError struct {
	Path, Problem string
	// Err is the cause where it is an error of the system, else nil.
	Err error
}

func (e *TokenError) Error() string {
	text := fmt.Sprintf("the token of the HTTP endpoint, %s, %s; delete the file and a new one is made", e.Path, e.Problem)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *TokenError) Unwrap() error { return e.Err }

// digest is a hash of a token, which can be compared and does not give it away.
type digest [sha256.Size]byte

func digestOf(token string) digest { return sha256.Sum256([]byte(token)) }

// loadToken reads the token, or makes one. It fails with a [*TokenError].
func loadToken(path string) (digest, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return makeToken(path)
	case err != nil:
		return digest{}, &TokenError{Path: path, Problem: "cannot be looked at", Err: err}
	case !info.Mode().IsRegular():
		return digest{}, &TokenError{Path: path, Problem: "is not a regular file"}
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows":
		return digest{}, &TokenError{Path: path, Problem: "could be read by others, so they may know it"}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return digest{}, &TokenError{Path: path, Problem: "cannot be read", Err: err}
	}
	token := strings.TrimSpace(string(text))
	if !soundToken.MatchString(token) {
		return digest{}, &TokenError{Path: path, Problem: "is not 16 to 256 characters out of A-Z a-z 0-9 . _ ~ -"}
	}
	return digestOf(token), nil
}

// makeToken writes a new token, which nobody else can read at any moment.
func makeToken(path string) (digest, error) {
	random := make([]byte, tokenSize)
	_, _ = rand.Read(random) // it never fails
	token := base64.RawURLEncoding.EncodeToString(random)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = maybe.WriteFile(path, []byte(token+"\n"), 0o600)
	}
	if err != nil {
		return digest{}, &TokenError{Path: path, Problem: "cannot be written", Err: err}
	}
	return digestOf(token), nil
}
