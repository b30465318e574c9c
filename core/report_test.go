package core

import (
	"context"
	"os"
	"os/exec"
	"testing"
)

func TestMemoryIsThatOfTheWholeTree(t *testing.T) {
	child := exec.CommandContext(t.Context(), "sleep", "60")
	if err := child.Start(); err != nil {
		t.Skip(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait() // it was killed
	}()
	us, it := int32(os.Getpid()), int32(child.Process.Pid) //nolint:gosec // pids fit
	trees := treeMemory(context.Background(), []int32{us, it, 1 << 30})
	if trees[it] <= 0 || trees[us] <= trees[it] || trees[1<<30] != 0 {
		t.Errorf("ours %d with a child of %d; nobody has %d", trees[us], trees[it], trees[1<<30])
	}
}
