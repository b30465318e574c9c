package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/joho/godotenv"
)

// errNotEnvFile stands for the parser's own error, which quotes the content.
var errNotEnvFile = errors.New("it must hold lines like NAME=value")

// ReadEnvFile reads a server's env file (NAME=value lines, # comments, quotes,
// "export") into "K=V" pairs, sorted by name. Its values are secrets: see
// [EnvSecrets]; the errors hold none.
func ReadEnvFile(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading envFile: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileSize {
		return nil, fmt.Errorf("reading envFile %s: not a regular file of a sensible size", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading envFile: %w", err)
	}
	values, err := godotenv.UnmarshalBytes(bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF")))
	// The parser takes a line without "=" for a variable without a name.
	if _, nameless := values[""]; err != nil || nameless || bytes.IndexByte(data, 0) >= 0 {
		return nil, fmt.Errorf("reading envFile %s: %w", path, errNotEnvFile)
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		env = append(env, name+"="+values[name])
	}
	return env, nil
}
