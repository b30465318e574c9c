//go:build e2e && linux

package e2e

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// watched is the resource of go-sdk's server that changes every three seconds.
const watched = "test://watched-resource"

// bridgeStep is one request of a client.
type bridgeStep struct {
	name string
	do   func(context.Context, *mcp.ClientSession) (any, error)
}

// steps are requests of every kind there is.
func steps() []bridgeStep {
	all := []bridgeStep{
		{"ping", func(ctx context.Context, s *mcp.ClientSession) (any, error) { return nil, s.Ping(ctx, nil) }},
		level("debug"),
		{"tools", listTools},
	}
	for _, c := range toolCalls {
		all = append(all, callTool(c.name, c.arguments))
	}
	all = append(all, level("error"), callTool("test_tool_with_logging", nil), level("debug"), callTool("test_tool_with_logging", nil))
	all = append(all, promptSteps()...)
	all = append(all, resourceSteps()...)
	return append(all,
		callTool("test_trigger_tool_change", nil), bridgeStep{"tools, changed", listTools}, callTool("__transient_tool_for_list_changed", nil),
		callTool("test_trigger_prompt_change", nil), bridgeStep{"prompts, changed", listPrompts},
	)
}

// toolCalls are of all tools, but those that change a list.
var toolCalls = []struct {
	name      string
	arguments map[string]any
}{
	{"test_simple_text", nil},
	{"test_image_content", nil},
	{"test_audio_content", nil},
	{"test_embedded_resource", nil},
	{"test_multiple_content_types", nil},
	{"test_tool_with_logging", nil},
	{"test_tool_with_progress", nil},
	{"test_error_handling", nil},
	{"test_sampling", map[string]any{"prompt": "say something"}},
	{"test_elicitation", map[string]any{"message": "your name?"}},
	{"test_elicitation", map[string]any{"message": "please refuse"}},
	{"test_elicitation_sep1034_defaults", nil},
	{"test_elicitation_sep1330_enums", nil},
	{"test_reconnection", nil},
	{"test_missing_capability", nil},
	{"test_streaming_elicitation", nil},
	{"test_logging_tool", nil},
	{"test_x_mcp_header", map[string]any{"region": "north", "level": 3}},
	{"json_schema_2020_12_tool", map[string]any{"name": "x", "contactMethod": "phone", "phone": "1"}},
	{"json_schema_2020_12_tool", map[string]any{"name": "x"}}, // which the server refuses
	{"test_input_required_result_elicitation", nil},
	{"test_input_required_result_sampling", nil},
	{"test_input_required_result_list_roots", nil},
	{"test_input_required_result_request_state", nil},
	{"test_input_required_result_multiple_inputs", nil},
	{"test_input_required_result_multi_round", nil},
	{"test_input_required_result_tampered_state", nil},
	{"test_input_required_result_capabilities", nil},
}

func callTool(name string, arguments map[string]any) bridgeStep {
	return bridgeStep{"call " + name, func(ctx context.Context, s *mcp.ClientSession) (any, error) {
		params := &mcp.CallToolParams{Name: name, Arguments: arguments}
		params.SetProgressToken("progress-" + name)
		result, err := s.CallTool(ctx, params)
		if name == "test_tool_with_progress" && err == nil {
			// It answers with the token that it got, which is one of the funnel's: those
			// of two clients may be the same.
			return len(result.Content), nil
		}
		return result, err
	}}
}

func level(to string) bridgeStep {
	return bridgeStep{"level " + to, func(ctx context.Context, s *mcp.ClientSession) (any, error) {
		//nolint:staticcheck // the version that is spoken has it
		return nil, s.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: mcp.LoggingLevel(to)})
	}}
}

// listTools leaves the one tool out from whose schema the funnel takes something. What it
// puts into others, properties where there are none, is put into all.
func listTools(ctx context.Context, s *mcp.ClientSession) (any, error) {
	var tools []*mcp.Tool
	for tool, err := range s.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if tool.Name == "json_schema_2020_12_tool" {
			continue
		}
		if schema, ok := tool.InputSchema.(map[string]any); ok && schema["properties"] == nil {
			schema["properties"] = map[string]any{}
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

func listPrompts(ctx context.Context, s *mcp.ClientSession) (any, error) {
	list, err := s.ListPrompts(ctx, nil)
	if err != nil {
		return nil, err
	}
	return list.Prompts, nil
}

func promptSteps() []bridgeStep {
	get := func(name string, arguments map[string]string) bridgeStep {
		return bridgeStep{"prompt " + name, func(ctx context.Context, s *mcp.ClientSession) (any, error) {
			return s.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: arguments})
		}}
	}
	complete := func(name string, ref *mcp.CompleteReference) bridgeStep {
		return bridgeStep{"complete " + name, func(ctx context.Context, s *mcp.ClientSession) (any, error) {
			return s.Complete(ctx, &mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteParamsArgument{Name: "arg1", Value: "t"}})
		}}
	}
	return []bridgeStep{
		{"prompts", listPrompts},
		get("test_simple_prompt", nil),
		get("test_prompt_with_arguments", map[string]string{"arg1": "one", "arg2": "two"}),
		get("test_prompt_with_embedded_resource", map[string]string{"resourceUri": "test://static-text"}),
		get("test_prompt_with_image", nil),
		get("test_input_required_result_prompt", nil),
		complete("prompt", &mcp.CompleteReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"}),
		complete("template", &mcp.CompleteReference{Type: "ref/resource", URI: "test://template/{id}/data"}),
	}
}

func resourceSteps() []bridgeStep {
	read := func(uri string) bridgeStep {
		return bridgeStep{"read " + uri, func(ctx context.Context, s *mcp.ClientSession) (any, error) {
			return s.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		}}
	}
	// Longer than the resource takes to change.
	wait := func(ctx context.Context) {
		select {
		case <-time.After(3500 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return []bridgeStep{
		{"resources", func(ctx context.Context, s *mcp.ClientSession) (any, error) {
			list, err := s.ListResources(ctx, nil)
			if err != nil {
				return nil, err
			}
			return list.Resources, nil
		}},
		{"templates", func(ctx context.Context, s *mcp.ClientSession) (any, error) {
			list, err := s.ListResourceTemplates(ctx, nil)
			if err != nil {
				return nil, err
			}
			return list.ResourceTemplates, nil
		}},
		read("test://static-text"), read("test://static-binary"), read("test://template/123/data"), read(watched), read("test://none"),
		{"subscribe, and wait", func(ctx context.Context, s *mcp.ClientSession) (any, error) {
			err := s.Subscribe(ctx, &mcp.SubscribeParams{URI: watched})
			wait(ctx)
			return nil, err
		}},
		{"unsubscribe", func(ctx context.Context, s *mcp.ClientSession) (any, error) {
			return nil, s.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: watched})
		}},
		{"unsubscribed", func(ctx context.Context, _ *mcp.ClientSession) (any, error) { wait(ctx); return nil, nil }},
	}
}
