// Package relaytest tests the whole relay: engine, PostgreSQL adapter and Kafka adapter together, on a
// real database and an in-process broker that fails on demand. What the crash of a process does is
// tested in cmd/internal/soak.
//
// These are the faults that the relay must survive, and the tests that see to it. Each test is named with
// the last part of its package; a test checks that all of them exist.
//
//	Relay process
//	 1  kill -9 at any step              soak.TestKilledAtEveryStep soak.TestServeKilled relaytest.TestTakeoverFromALeaderThatIsKilled
//	                                     relaytest.TestKilledInTurnOverABacklog relaytest.TestKilledWhileNoBrokerAnswers
//	 2  stopped, replaced, continued     relaytest.TestFault02StoppedAndContinued postgres.TestRule6AZombieWritesNothing
//	                                     postgres.TestRule6AFrozenLeaderIsNotSureBeforeAnotherLeads
//	 3  SIGTERM, once and twice          soak.TestFault03Terminated soak.TestFault03TerminatedTwice app.TestStopUnderLoad
//	                                     app.TestStopWithoutBrokers relaytest.TestTakeoverFromALeaderThatEnds
//	 4  panic; stuck in a call           relaytest.TestFault04PanicInAWorker relay.TestLoopSurvivesASilentDatabase
//	                                     relaytest.TestFault44Partitions
//	 5  several at once, unlike          relaytest.TestFault05DifferentSettings soak.TestTwoRelays
//	 6  no files, no descriptors         relaytest.TestFault06NoFiles relaytest.TestFault06NoDescriptors
//	Brokers
//	 7  away, restarting, moving         relaytest.TestBrokersAway relaytest.TestFault07RollingRestart app.TestBrokersComeLater
//	 8  replicas missing, timeouts       relaytest.TestFaultsStayWhereTheyAre relaytest.TestHealthyTopicsGoOn kafka.TestEveryError kafka.TestNoAnswer
//	 9  too large, and a lowered limit   relaytest.TestFault09LimitLowered kafka.TestTooLargeForTheTopic
//	                                     kafka.TestSmallRecordsTooLargeTogether kafka.TestTooLargeAmongOthers
//	10  records and batches refused      relaytest.TestFault10RecordRefused relaytest.TestFault10CompressionRefused kafka.TestEveryError
//	11  topics missing, changed, remade  relaytest.TestFault11PartitionsAdded relaytest.TestFault11TopicRecreated kafka.TestRecreatedTopic
//	                                     kafka.TestMissingTopic kafka.TestKeysMoveOnce kafka.TestInUseWhenKeysMove
//	12  rights, logins, certificates     relaytest.TestFault12NotAllowed relaytest.TestFault12LoginRefused
//	                                     relaytest.TestFault12CertificateExpired
//	13  producer ids lost and fenced     kafka.TestEveryError kafka.TestChaos kafka.TestProducerIDRefused
//	14  slow and silent                  relaytest.TestFaultsStayWhereTheyAre relaytest.TestFault44Partitions relaytest.TestFault14SlowBroker kafka.TestTooManyWait
//	15  replies lost, half-open          relaytest.TestFault15RepliesLost kafka.TestChaos kafka.TestShortSilence
//	16  retention and compaction         kafka.TestNullKeyInACompactedTopic app.TestSentAgain
//	PostgreSQL
//	17  restart, failover, standby       relaytest.TestFault17Restart relaytest.TestFault17Failover relaytest.TestFault17SettlementLost
//	                                     app.TestDatabaseRestarts
//	                                     postgres.TestServerThatIsAnotherNow
//	18  connection cut anywhere          relaytest.TestFault18CutAnywhere relaytest.TestUnknownCommit relaytest.TestFlappingDatabaseWithSlowBrokers
//	19  timeouts, ended sessions         relaytest.TestFault19Timeouts postgres.TestErrorsOfARealServer
//	20  deadlocks, maintenance           relaytest.TestFault20Deadlock relaytest.TestFault20Maintenance postgres.TestRule10TheRelayWaitsForPeople
//	                                     postgres.TestRule10TakeKeepsOrderBesidePeople
//	21  no connections, disk, memory     relaytest.TestFault21NoConnections relaytest.TestFault21DiskFull relaytest.TestFault21FullDisk
//	22  commits lost                     relaytest.TestFault17Failover relaytest.TestFault22CommitsLostInACrash
//	                                     postgres.TestRule7NothingIsSettledFromMemoryAfterACrash
//	23  ids rewound by a restore         relaytest.TestFault23IDsRewound postgres.TestRewound postgres.TestRule12WhatIsSilentIsCounted
//	24  transactions left open           relaytest.TestFault24LongTransaction relaytest.TestFault24PreparedTransaction
//	                                     relaytest.TestWriterIdleInTransaction relaytest.TestBulkTransactionRollsBack
//	                                     relaytest.TestLateCommitsOfInterleavedIDs postgres.TestRule5PreparedTransactions
//	25  all that writers do              relaytest.TestFault25Writers relaytest.TestFault25ConcurrentWritersOfOneKey
//	                                     postgres.TestRule5NothingIsLostOrForgottenTooEarly
//	26  pooler in transaction mode       relaytest.TestBehindAPooler postgres.TestStoreBehindAPooler postgres.TestSettingsBehindAPooler
//	27  dead rows                        postgres.TestRule1RowsAreOnlyInserted postgres.TestRule10TakeGoesOnFromACursor
//	                                     postgres.TestRule6RenewalKeepsNoVacuumBack relaytest.TestWriterIdleInTransaction
//	Data
//	29  any bytes, large payloads        relaytest.TestFault29AnyBytes relaytest.TestFault29GivenUpBytes
//	                                     relaytest.TestFault29LargePayloads relaytest.TestFault29HugePayload
//	31  headers that pretend             relaytest.TestFault31Headers relay.FuzzHeadersOfARecord message.FuzzParseHeaders
//	Dead letters
//	35  the topic missing or too small   relaytest.TestFault35DeadLetterTopic relay.TestLetterFailures
//	36  crash around the letter          soak.TestKilledAtEveryStep soak.TestServeKilled
//	37  a flood of failures              relaytest.TestFault37RightsTakenAway relaytest.TestFault37BadDeploy relaytest.TestBreaker
//	                                     relaytest.TestGoodEventsPassABreaker
//	38  members come, go and are slow    soak.TestConsumerChurn consumer.TestRevoked consumer.TestRevokedTooSlow consumer.TestLost
//	                                     kafka.TestHoldsTheGroupWhileRecordsAreInHand kafka.TestRebalanceWithinALongPoll
//	39  copies, foreign and broken ones  kafka.TestCollectsEachLetterOnce dlq.FuzzDecode dlq.FuzzForeign dlq.TestStoreRefusesOne
//	                                     postgres.TestNastyLetters interop.TestConnect interop.TestSpring
//	40  offsets gone, topics made anew   kafka.TestRetentionOvertakesReading kafka.TestRecreatedTopic kafka.TestDeletedUnread
//	                                     kafka.TestTopicRecreated
//	41  sent again after later ones      relaytest.TestHaltedKeyAndRedrive postgres.TestRedrivenEventGoesFirst postgres.TestRedriveSendsTheMessageAgain
//	                                    postgres.TestRedriveKeepsTheOrderOfAKey
//	Time and network
//	42  clocks that differ               relaytest.TestFault42ClocksDiffer relaytest.TestFault42NoTimesOfTheRelay
//	43  events that arrive old           relaytest.TestFault24LongTransaction
//	44  partitions, slow links           relaytest.TestFault44Partitions relaytest.TestFault44OneRelayCutOff relaytest.TestFault44SlowLink
//	                                     relaytest.TestFault44NamesAway
package relaytest
