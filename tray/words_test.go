package tray

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestOneLine(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":           {"github: connected", "github: connected"},
		"empty":           {"", ""},
		"blank":           {" \n\t ", ""},
		"lines":           {"a\r\n\tb\u2028c", "a b c"},
		"control":         {"a\x00b\x1b[31mc\x7f\u0085d", "ab[31mc d"},
		"direction marks": {"a\u202eb\u2066c\u200fd\u061ce", "abcde"},
		"right to left":   {"שרת: connected", "שרת: connected"},
		"joined emoji":    {"👩\u200d💻 x", "👩\u200d💻 x"},
		"not UTF-8":       {"a\xffb", "a\ufffdb"},
		"fits":            {strings.Repeat("é", 80), strings.Repeat("é", 80)},
		"cut":             {strings.Repeat("é", 81), strings.Repeat("é", 79) + "…"},
		"cut at a space":  {strings.Repeat("é", 78) + " yyy", strings.Repeat("é", 78) + "…"},
		"spaces at end":   {strings.Repeat("é", 80) + "   ", strings.Repeat("é", 80)},
	} {
		if got := oneLine(c.in, labelLimit); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func FuzzOneLine(f *testing.F) {
	for _, seed := range []string{"", "a\nb", "\u202e", "\xff\x00", strings.Repeat("x ", 200), "👩\u200d💻"} {
		f.Add(seed, 80)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 1 + limit&0xff
		got := oneLine(s, limit)
		if n := utf8.RuneCountInString(got); n > limit {
			t.Fatalf("%d runes, limit %d: %q", n, limit, got)
		}
		if !utf8.ValidString(got) {
			t.Fatalf("not UTF-8: %q", got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r != ' ' && unicode.IsSpace(r) {
				t.Fatalf("%U in %q", r, got)
			}
		}
		if got != strings.TrimSpace(got) {
			t.Fatalf("a space at an end: %q", got)
		}
	})
}

func TestMnemonicsAreEscaped(t *testing.T) {
	for goos, want := range map[string]string{
		"linux": "a__b & c", "freebsd": "a__b & c", "windows": "a_b && c", "darwin": "a_b & c",
	} {
		if got := hostOf(goos).escape("a_b & c"); got != want {
			t.Errorf("%s: %q, want %q", goos, got, want)
		}
	}
}
