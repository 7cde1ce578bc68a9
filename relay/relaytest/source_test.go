package relaytest

import (
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// TestTheSourcesTestsExist: the design of tasks, their dead letters and their archive (the source T, "Testing Strategy")
// names seven unit tests and two integration tests. They are here, each with the last part of its package, as the
// requirements change them: messages are requeued and tasks are retried or repaired at their steps, so a requeue of a
// task is its retry, and there is no boost of priorities.
//
//	test_staleness_detection_respects_thresholds       postgres.TestStalenessDetectionRespectsThresholds
//	test_dlq_requeue_increments_retry_counter          postgres.TestDlqRequeueIncrementsRetryCounter
//	test_dlq_requeue_respects_max_retries              postgres.TestDlqRequeueRespectsMaxRetries
//	test_archive_only_archives_old_completed_tasks     postgres.TestArchiveOnlyArchivesOldCompletedTasks
//	test_per_template_thresholds_override_defaults     postgres.TestPerTemplateThresholdsOverrideDefaults
//	test_missing_lifecycle_config_uses_system_defaults postgres.TestMissingLifecycleConfigUsesSystemDefaults
//	test_partial_lifecycle_config_merges_with_defaults postgres.TestPartialLifecycleConfigMergesWithDefaults
//	test_end_to_end_dlq_workflow                       app.TestWorkflowOfAStaleTask app.TestWorkflowOfRepeatedFailures
//	                                                   app.TestWorkflowOfADependencyCycle app.TestWorkflowOfATaskThatGetsStuckTwice
//	test_archival_preserves_data_integrity             postgres.TestArchivalPreservesDataIntegrity
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
	theirs := regexp.MustCompile(`^\s*(test_\w+)`)
	found, tests, row := map[string]int{}, testsOfTheTree(t, files), ""
	for line := range strings.Lines(source.Comments[0].Text()) {
		if m := theirs.FindStringSubmatch(line); m != nil {
			row = m[1]
			if !named[row] {
				t.Errorf("the source names no %s", row)
			}
		}
		for _, m := range testName.FindAllStringSubmatch(line, -1) {
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
