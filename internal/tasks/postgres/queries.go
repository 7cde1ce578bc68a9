package postgres

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// query returns the text of queries/NAME.sql. A missing file is a programming error and stops the
// program at start.
func query(name string) string {
	text, err := queryFiles.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("internal/tasks/postgres: %v", err))
	}
	return strings.TrimSpace(string(text))
}

var (
	createTask      = query("create_task")
	transitionTask  = query("transition_task")
	evaluateTask    = query("evaluate_task")
	cancelTask      = query("cancel_task")
	unflagTask      = query("unflag_task")
	taskSnapshot    = query("task_snapshot")
	nextReadyTasks  = query("next_ready_tasks")
	workerHeartbeat = query("worker_heartbeat")

	enqueueStep  = query("enqueue_step")
	startStep    = query("start_step")
	completeStep = query("complete_step")
	failStep     = query("fail_step")
	stepAction   = query("step_action")
	readySteps   = query("ready_steps")

	getTask             = query("get_task")
	listTasks           = query("list_tasks")
	listSomeTasks       = query("list_some_tasks")
	listFlaggedTasks    = query("list_flagged_tasks")
	listNearStaleTasks  = query("list_near_stale_tasks")
	listRetryableTasks  = query("list_retryable_tasks")
	machineStates       = query("machine_states")
	taskIDs             = query("task_ids")
	listSteps           = query("list_steps")
	listTransitions     = query("list_transitions")
	listStepTransitions = query("list_step_transitions")
)
