package relaytest

import (
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// TestTheSourcesTestsExist: the design of tasks, their dead letters and their archive (the source T, "Testing Strategy")
// names seven unit tests and two integration tests. They are here, each with its package, as the requirements change
// them: messages are requeued and tasks are retried or repaired at their steps, so a requeue of a task is its retry, and
// there is no boost of priorities. Where the source marks a task as permanently_failed that is requeued although its
// retries are spent, nothing is: who retries is a person, whom no count stops, and permanently_failed is what people say
// of an investigation. That test asks for the retry, and for the second dead letter when the step fails again.
//
//	test_staleness_detection_respects_thresholds       internal/tasks/postgres.TestStalenessDetectionRespectsThresholds
//	test_dlq_requeue_increments_retry_counter          internal/tasks/postgres.TestDlqRequeueIncrementsRetryCounter
//	test_dlq_requeue_respects_max_retries              internal/tasks/postgres.TestDlqRequeueRespectsMaxRetries
//	test_archive_only_archives_old_completed_tasks     internal/tasks/postgres.TestArchiveOnlyArchivesOldCompletedTasks
//	test_per_template_thresholds_override_defaults     internal/tasks/postgres.TestPerTemplateThresholdsOverrideDefaults
//	test_missing_lifecycle_config_uses_system_defaults internal/tasks/postgres.TestMissingLifecycleConfigUsesSystemDefaults
//	test_partial_lifecycle_config_merges_with_defaults internal/tasks/postgres.TestPartialLifecycleConfigMergesWithDefaults
//	test_end_to_end_dlq_workflow                       cmd/internal/app.TestWorkflowOfAStaleTask
//	                                                   cmd/internal/app.TestWorkflowOfRepeatedFailures
//	                                                   cmd/internal/app.TestWorkflowOfADependencyCycle
//	                                                   cmd/internal/app.TestWorkflowOfATaskThatGetsStuckTwice
//	test_archival_preserves_data_integrity             internal/tasks/postgres.TestArchivalPreservesDataIntegrity
func TestTheSourcesTestsExist(t *testing.T) {
	t.Parallel()
	named := map[string]bool{
		"test_staleness_detection_respects_thresholds": true, "test_dlq_requeue_increments_retry_counter": true, "test_dlq_requeue_respects_max_retries": true,
		"test_archive_only_archives_old_completed_tasks": true, "test_per_template_thresholds_override_defaults": true,
		"test_missing_lifecycle_config_uses_system_defaults": true, "test_partial_lifecycle_config_merges_with_defaults": true,
		"test_end_to_end_dlq_workflow": true, "test_archival_preserves_data_integrity": true,
	}
	files := token.NewFileSet()
	source, err := parser.ParseFile(files, "source_test.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours := regexp.MustCompile(`^\s*(test_\w+)`), regexp.MustCompile(`\b([a-z]+(?:/[a-z]+)*\.Test\w+)`)
	whole := func(dir string) string { return dir } // there are several packages postgres
	found, tests, row := map[string]int{}, testsOfTheTree(t, files, whole), ""
	for line := range strings.Lines(source.Comments[0].Text()) {
		if m := theirs.FindStringSubmatch(line); m != nil {
			row = m[1]
			if !named[row] {
				t.Errorf("the source names no %s", row)
			}
		}
		for _, m := range ours.FindAllStringSubmatch(line, -1) {
			found[row]++
			if !tests[m[1]] {
				t.Errorf("%s is said to be %s, which does not exist", row, m[1])
			}
		}
	}
	for name := range named {
		if found[name] == 0 {
			t.Errorf("%s has no test", name)
		}
	}
}
