/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The formats of results that several guests report. crates/protocol/src/report.rs reads them. */
#ifndef PAGETOLL_RESULTS_H
#define PAGETOLL_RESULTS_H

/* Mechanism, batch, pages, mark; instructions; entries with neither bit, A, D, both; faults. */
#define CLEAR_RESULT                                                                                         \
	"{\"kind\":\"clear\",\"mechanism\":\"%s\",\"batch\":%u,\"pages\":%u,\"mark\":%d,\"instructions\":%llu,"   \
	"\"classes\":[%llu,%llu,%llu,%llu],\"faults\":" FAULTS_RESULT "}"

/* Accessed and dirty bits lost, wrong frames, wrong flags, entries left, hypercalls refused. */
#define FAULTS_RESULT                                                                                   \
	"{\"lost_accessed\":%llu,\"lost_dirty\":%llu,\"wrong_frame\":%llu,\"wrong_flags\":%llu,"        \
	"\"not_none\":%llu,\"refused\":%llu}"

/* Operation, mechanism, count, mark; instructions; wrong frames, wrong flags, A or D lost, hypercalls refused. */
#define SET_RESULT                                                                                      \
	"{\"kind\":\"repeat\",\"operation\":\"%s\",\"mechanism\":\"%s\",\"count\":%u,\"mark\":%d,"      \
	"\"instructions\":%llu,"                                                                        \
	"\"failed\":{\"frame\":%llu,\"flags\":%llu,\"accessed-dirty\":%llu,\"accepted\":%llu}}"

/* Operation, pages, mark; instructions. Pages are calls or switches where there are no pages. */
#define USER_RESULT "{\"kind\":\"user\",\"operation\":\"%s\",\"pages\":%u,\"mark\":%d,\"instructions\":%lu}"

#endif
