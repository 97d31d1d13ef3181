/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every fixed bound of nigh, in one place. Reaching one is a status (mostly NIGH_LIMIT), never
 * growth and never an abort. What a user may set is bounded here and set by flag or option, not
 * here.
 */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

/* The house */
#define LIMIT_SHARDS            64   /* fixed slices of every key space (power of two) */
#define LIMIT_LANES             64   /* lanes a node, a power of two; never above the shards */
#define LIMIT_POOLS             64   /* pools a node */
#define LIMIT_SESSIONS          1024 /* sessions a node */
#define LIMIT_NAME_BYTES        255  /* an object's name, without terminator */
#define LIMIT_POOL_NAME_BYTES   31   /* a pool's name, without terminator */
#define LIMIT_CLIENT_NAME_BYTES 31   /* what a client calls itself */
#define LIMIT_SOCKET_PATH_BYTES 107  /* sun_path without its terminator */

/* Memory */
#define LIMIT_EXTENTS          4096 /* extent numbers a node: places that memory may lie at */
#define LIMIT_EXTENT_BYTES_MIN (UINT64_C(2) << 20)
#define LIMIT_EXTENT_BYTES_MAX                                                   \
    (UINT64_C(16) << 30)           /* 4096 of them are half of the address space \
                                    */
#define LIMIT_EXTENTS_AIM      128 /* start-up cuts the memory into about this many */
#define LIMIT_MEMORY_BYTES_MIN (UINT64_C(16) << 20)
#define LIMIT_GRANULE_BYTES    64  /* every allocation starts on, and is a multiple of, this */
#define LIMIT_HEAPS_A_LANE     128 /* (pool, writer uid) pairs with memory in one lane */

/* Objects */
#define LIMIT_ID_BYTES      20
#define LIMIT_META_BYTES    65536 /* user metadata of one object */
#define LIMIT_OBJECT_BYTES  (UINT64_C(1) << 46)
#define LIMIT_INDEX_ENTRIES (1u << 26) /* entries of one index (a pool in a lane) */
#define LIMIT_PROBES        512        /* slots one look-up may visit before it asks the lane */
#define LIMIT_INDEX_NAMES   8192       /* names of spilled objects that an index keeps */
#define LIMIT_PIN_RETRIES   4          /* attempts of a get without IPC before it asks the lane */

/* Sessions */
#define LIMIT_RING_ENTRIES     256   /* submissions, and completions, of one session and lane */
#define LIMIT_EVENT_ENTRIES    1024  /* subscription events queued for one session and lane */
#define LIMIT_REPLY_BYTES      65536 /* reply area of one session and lane (who, stats, holders) */
#define LIMIT_PIN_CHUNKS       64    /* chunks of pin words a session; a thread owns whole chunks */
#define LIMIT_PINS_A_CHUNK     32
#define LIMIT_HINTS_A_CHUNK    64   /* access hints kept a chunk (a power of two) */
#define LIMIT_LANE_PINS        8192 /* pins the lane holds for one session, on top of its own */
#define LIMIT_PUT_LEASES       4 /* leased slabs that one client's puts are cut from, in one lane */
#define LIMIT_LEASES_A_SESSION (LIMIT_PUT_LEASES + 1) /* and the one that its calls lie in */
#define LIMIT_LEASE_PIECES     64 /* unsealed pieces one leased slab may fall into */
#define LIMIT_LEASE_BYTES_MIN  (UINT64_C(256) << 10)
#define LIMIT_LEASE_BYTES_MAX  (UINT64_C(16) << 20)
#define LIMIT_LEASE_FREE_SHARE \
    8 /* the leases of all sessions are about free memory / this at most */
#define LIMIT_LEASE_SESSIONS 24 /* sessions yet to come that a lease leaves a share for */
#define LIMIT_UNSEALED_A_SESSION \
    1024 /* created, not yet sealed, objects of a session in one lane */
#define LIMIT_WAITS_A_LANE          65536 /* gets, creates and deletes that wait in one lane */
#define LIMIT_SESSION_MESSAGE_BYTES 512   /* the longest message on the session socket */
#define LIMIT_SESSION_FDS           250 /* descriptors one message may carry (SCM_MAX_FD is 253) */

/* Clients */
#define LIMIT_THREAD_CHUNKS 16 /* pin chunks one thread may own; beyond, the lane pins for it */
#define LIMIT_RING_WAITERS                                                                   \
    192 /* submissions of one client that may wait in a lane; the rest of its ring stays for \
           others */
#define LIMIT_RING_CREATES 32 /* that may wait beside these: creates, for which gets may wait */
#define LIMIT_NODE_GRACE_US \
    1000000                 /* beyond its deadline a call gives a node that does not answer */
#define LIMIT_OPEN_TRIES 16 /* of one nigh_client_open, where the node closes the connection */
#define LIMIT_LEASE_IDLE_US                                                                \
    1000000                  /* a client that sleeps for longer and puts nothing meanwhile \
                                gives its leases back; one that is used up later than so   \
                                is followed by a small one */
#define LIMIT_ASK_BATCH    8 /* extents asked for ahead of one answer */
#define LIMIT_EVICT_PASSES 3 /* rounds over all lanes of one nigh_evict */

#define LIMIT_NODES_A_PROCESS 16 /* embedded nodes that listen, or spill */

/* The front door */
#define LIMIT_FRONT_HALF_OPEN 64      /* connections that have not said hello */
#define LIMIT_FRONT_HELLO_US  5000000 /* how long a connection may take to say hello */
#define LIMIT_FRONT_MESSAGES  16      /* messages of one socket in one turn */
#define LIMIT_FRONT_UNREAD_BYTES \
    32768 /* of the kernel's, in messages to a session: some 40 descriptors on their way */
#define LIMIT_FRONT_ACCEPTS 1     /* connections taken before the rings are served again */
#define LIMIT_PEER_GROUPS   65536 /* supplementary groups of a client (NGROUPS_MAX) */

/* Lanes: how much one turn does before it looks elsewhere (fairness) */
#define LIMIT_TURN_SUBMISSIONS 64 /* submissions of one session served in one turn */
#define LIMIT_TURN_TIMERS      256
#define LIMIT_EVICT_BATCH      256     /* victims marked under one fence and one scan */
#define LIMIT_EVICT_ROUNDS     64      /* batches one allocation may evict before it waits */
#define LIMIT_EVICT_SCAN       512     /* entries one choice of victims may pass over */
#define LIMIT_MAILBOX          4096    /* messages between two lanes */
#define LIMIT_EPOLL_EVENTS     4       /* descriptors looked at before the rings are served again */
#define LIMIT_SPIN_US          1000000 /* the longest spin a configuration may ask for */

/* The object store of one lane: how long it leaves things alone, how much it does in one turn */
#define LIMIT_RETRY_US            1000  /* between attempts to find memory when nothing was freed */
#define LIMIT_GRAVE_US            1000  /* between looks at the pins of deleted objects */
#define LIMIT_DISK_LOOK_US        10000 /* how long a look at what a disk has free serves */
#define LIMIT_FULL_TOLD_US        60000000 /* how often the log says that the same is full */
#define LIMIT_DISK_REST_US        1000000  /* no spilling after a disk write failed */
#define LIMIT_JUDGE_US            1000000  /* between searches for sessions that pin too much */
#define LIMIT_UNSPILL_US          1000000 /* what a get of a spilled object waits for the disk at least */
#define LIMIT_TURN_QUEUE          4096 /* waiting operations looked at for freed memory */
#define LIMIT_TURN_RETRIES        16   /* attempts that fail for one heap */
#define LIMIT_TURN_GRAVES         4096 /* deleted objects looked at under one scan */
#define LIMIT_TURN_REPLAY         256  /* events of past seals for one session */
#define LIMIT_TURN_CHECKSUM_BYTES (UINT64_C(256) << 10)
#define LIMIT_TURN_COPY_BYTES     (UINT64_C(1) << 20)
#define LIMIT_BARREN_ROUNDS       8 /* batches without a free victim before an allocation gives up */
#define LIMIT_CLEAR_TRIES         64 /* extents that one allocation may try to empty */

/* Spill */
#define LIMIT_SPILL_QUEUE 1024 /* reads and writes queued to one lane's disk thread */

/* Fabric */
#define LIMIT_FABRIC_ENDPOINTS    8192                /* endpoints of one lane */
#define LIMIT_FABRIC_MEMORIES     (UINT32_C(1) << 18) /* registrations of one lane */
#define LIMIT_FABRIC_DEPTH        4096 /* outstanding posts, and receives, of one endpoint */
#define LIMIT_FABRIC_STOCKS       4    /* of receives that endpoints share, of one lane */
#define LIMIT_FABRIC_STOCK        8192 /* receives of one stock */
#define LIMIT_FABRIC_SLICES       8
#define LIMIT_FABRIC_INLINE       512 /* bytes of an inline post */
#define LIMIT_FABRIC_READS        16  /* READs and atomics of one endpoint that act at once */
#define LIMIT_FABRIC_HANDSHAKE_US 5000000
#define LIMIT_BULK_ENDPOINTS      4    /* of one link */
#define LIMIT_REGION_ENDPOINTS    2    /* of one link, for regions: one for each priority */
#define LIMIT_LINK_WRITES         1024 /* WRITEs and atomics of one endpoint under way */
#define LIMIT_FABRIC_HALF_OPEN    256  /* connections to a lane that are not accepted yet */
#define LIMIT_FABRIC_TURN_BYTES   (UINT64_C(1) << 20) /* payload of one endpoint in one poll */
#define LIMIT_FABRIC_MESSAGE      (UINT64_C(1) << 30) /* bytes of one post */
#define LIMIT_FABRIC_TOS          255                 /* the byte of type of service of a packet */
#define LIMIT_FABRIC_RETRIES      7 /* of a packet, by an RDMA device: three bits */
/* An RDMA device waits 4.096 us << this for an answer, each time: 1 ms to 4.3 s. */
#define LIMIT_FABRIC_ACK_MIN 8
#define LIMIT_FABRIC_ACK_MAX 20

/* The cluster */
#define LIMIT_NODES             256        /* members */
#define LIMIT_UNSHARED_MEMBERS  32         /* with more, the links of a lane share receives */
#define LIMIT_SHARED_RECEIVES   128        /* for bulk messages, of all links of a lane together */
#define LIMIT_SHARED_FEWEST     8          /* ... that may be asked for */
#define LIMIT_PEER_HANDSHAKES   64         /* control connections that have not proved themselves */
#define LIMIT_DIRECTORY_KEYS    (1u << 24) /* keys of one lane's directory */
#define LIMIT_DIRECTORY_TURN    1024 /* keys that one turn passes when a member came or went */
#define LIMIT_DIRECTORY_CHANGES 1024 /* such changes under way */
/* Tables that members share (src/cluster/share.h): keys, loans, deletes. */
#define LIMIT_SHARE_OWN  4 /* a table / this is divided: each member's own part */
#define LIMIT_SHARE_LEFT 4 /* of the rest one member leaves the rest / this to the others */

/* Membership (docs/membership.md) */
#define LIMIT_SWIM_MEMBERS 1024 /* that the protocol can hold; a node has LIMIT_NODES at most */
#define LIMIT_SWIM_UPDATES 80   /* in one datagram, which has 1336 bytes then */
#define LIMIT_SWIM_SENDS   8    /* datagrams that one step asks for */
#define LIMIT_SWIM_CHANGES 96   /* changes that one step tells */
#define LIMIT_SWIM_RELAYS  64   /* probes for others, under way */
#define LIMIT_SWIM_TURN    64   /* datagrams taken in at once */

/* Objects between nodes: bounds of one lane */
#define LIMIT_PULLS         LIMIT_WAITS_A_LANE /* ids that somebody waits for */
#define LIMIT_PULL_READS    4096               /* READs under way */
#define LIMIT_SERVES        16384              /* loans and streams */
#define LIMIT_SERVES_A_PEER 8                  /* of them, of one object to one peer */
#define LIMIT_ERASES        4096               /* deletes that wait for other nodes */
#define LIMIT_WHERES        256                /* questions where an object is, under way */
#define LIMIT_CLAIMS        16384 /* ids that exclusive creates here hold, and that a home grants */
#define LIMIT_CLAIM_US \
    500000 /* an exclusive create waits so long for the id's home, whatever its timeout */
#define LIMIT_REPLICAS       8     /* nodes that one object may be asked to be held by */
#define LIMIT_REPLICA_KEYS   65536 /* objects with replicas, held, and kept account of */
#define LIMIT_REPLICA_MAKING 256   /* replicas that are being pulled */
#define LIMIT_REPLICA_ASKED  256   /* that other nodes are being asked for */
#define LIMIT_REPLICA_WAITS  4096  /* clients' operations that wait for replicas */
#define LIMIT_LEAVE_SHARE    16    /* of a lane's memory: what is pulled of handed-over objects */
#define LIMIT_LEAVE_COPIES   1024  /* copies that are looked at to make room for one of them */
#define LIMIT_REPLICA_SHARE  2 /* replicas made for others take a lane's memory / this at most */
/* A replica that is lost is made again so soon after its node is known to be dead, where a member
 * has room for it, and apart from the time that its bytes travel (docs/replicas.md). */
#define LIMIT_REPAIR_US      5000000
#define LIMIT_TURN_CLAIMS    64   /* of those that wait for a home, asked for again in one turn */
#define LIMIT_ANNOUNCE_QUEUE 1024 /* news for one home; beyond, it is told everything again */

/* Trees: large objects that many nodes pull at once (docs/transfer.md) */
#define LIMIT_TREE_BYTES       (UINT64_C(4) << 20) /* smaller ones are served to whoever asks */
#define LIMIT_TREE_CHILDREN    2       /* pullers of one object that a node serves at once */
#define LIMIT_TREE_MOST        255     /* that it may be told to: so often an object can be lent */
#define LIMIT_TREE_WAIT_US     500000  /* a question for more waits so long until there is more */
#define LIMIT_TREE_PATIENCE_US 5000000 /* who gets nothing for so long from one asks another */
#define LIMIT_TREE_HOPS        64      /* from one node to another, in a row */
#define LIMIT_TREE_TRIES       3       /* in vain; then only who has all of it is asked */

/* Calls between nodes: bounds of one channel */
#define LIMIT_RPC_REQUESTS 1024
#define LIMIT_RPC_CALLS    4096
#define LIMIT_RPC_QUEUE    4096
#define LIMIT_RPC_PAYLOAD  65536
#define LIMIT_RPC_RING     262144 /* bytes that a link's peer writes frames of calls into */
#define LIMIT_RPC_RING_MIN 65536  /* of them, however few calls a link has under way */

/* Calls of services (docs/calls.md) */
#define LIMIT_CALL_BYTES       8192 /* of a request, and of a reply */
#define LIMIT_CALLS            4096 /* of this node's clients, under way in one lane */
#define LIMIT_CALL_REQUESTS    4096 /* that services of one lane have not answered */
#define LIMIT_SERVICES         64   /* of one node */
#define LIMIT_SESSION_SERVICES 16   /* of one client that receives */
#define LIMIT_RECEIVES         64   /* of one service, that wait */
#define LIMIT_SERVICE_QUEUE    128  /* requests that wait for a receive of one service */
#define LIMIT_CALL_PLACES      128  /* of one client's calls and replies in one lane */
#define LIMIT_OWN_PLACES       32   /* of them, that its session has whatever others do */
#define LIMIT_REPLY_PLACES     8    /* of them, kept for replies */
#define LIMIT_UNLOCKED_PLACES  16   /* and from waits for locks, so that holders read and write */
#define LIMIT_CALL_TRIES       8    /* nodes that a call of any server is tried at, in a row */
#define LIMIT_PLACES_REST_US \
    1000000 /* before memory for more places is asked for again, after a refusal */
#define LIMIT_CALL_REST_US \
    1000 /* before an idempotent call is tried again; doubled, 256 times at most */
#define LIMIT_CALL_LINK_US UINT64_C(10000000) /* that a call waits for a link that has not come */
#define LIMIT_NEAR_US \
    UINT64_C(200000)              /* that a call of NIGH_NEAREST asks where its objects are, ... */
#define LIMIT_NEAR_PART         4 /* ... or this part of what is left to its deadline, if that is less */
#define LIMIT_CALL_BULKS        8    /* handles of memory that one call brings */
#define LIMIT_BULKS             1024 /* of a node: of its process, and files made for clients */
#define LIMIT_SESSION_BULKS     256  /* of one client */
#define LIMIT_BULK_ASKS         1024 /* of clients, for files to be made or no longer to be used */
#define LIMIT_SESSION_BULK_ASKS 128  /* of one client; one wait asks each lane */
#define LIMIT_BULK_STEP \
    (UINT64_C(16) << 20)         /* of a file, made or unmade before others have their turn */
#define LIMIT_BULK_LOANS    1024 /* calls of one lane that bring some, until nobody touches it */
#define LIMIT_BULK_FLOWS    1024 /* transfers of one lane under way, of its services */
#define LIMIT_REQUEST_FLOWS 16   /* of them, of one request */
#define LIMIT_BULK_LANDINGS                                               \
    2048 /* what lands for others, until it is said to; half for one link \
          */
#define LIMIT_BULK_CHUNK  (UINT64_C(1) << 20) /* of one READ */
#define LIMIT_BULK_WINDOW 8                   /* READs of one transfer under way */
#define LIMIT_BULK_COPY   (UINT64_C(1) << 18) /* copied for one transfer in one turn */
#define LIMIT_BULK_LOAN_US \
    10000000 /* after its call has ended; then the link is broken, which ends it */
#define LIMIT_BULK_CLOSE_US \
    2000000 /* a client that closes waits so long before it has links broken */
#define LIMIT_PAIRS           256     /* of one node: pairs of processes that call each other */
#define LIMIT_SESSION_PAIRS   64      /* of one client, calling and serving */
#define LIMIT_PAIR_ENTRIES    64      /* calls of a pair that are under way */
#define LIMIT_PAIR_DATA_BYTES 131072  /* of their requests, and of their replies */
#define LIMIT_PAIR_TURNS      256     /* looks at a pair, with the lock held */
#define LIMIT_PAIR_ROUGH_US   1000000 /* from here on a timeout is told to a tick */
#define LIMIT_LOCK_TURNS      128     /* looks at a client's lock, before a sleep */
#define LIMIT_TICK_US         10000   /* the longest tick of a kernel */
#define LIMIT_PAIR_REFUSED    16      /* names that a client remembers there is no pair for */
#define LIMIT_PAIR_AGAIN_US   1000000 /* before it asks for one of them again */
#define LIMIT_PAIR_SOON_US    20000   /* the same where the node was only busy */
#define LIMIT_PAIR_GRANT_US   1000    /* between two pairs that a node makes */
#define LIMIT_PAIR_ASK_US     10000   /* between two that one client asked for */
#define LIMIT_PAIR_UNREAD_BYTES \
    4096 /* as LIMIT_FRONT_UNREAD_BYTES, for who is given a pair: some 5 of them */
#define LIMIT_URGENT_RUN 8 /* urgent calls in a row, while others wait for the same node */
#define LIMIT_URGENT_SHARE \
    8 /* beside its places for calls a link has such a part of them more, for urgent ones alone */

/* Shares of a link's places for calls (docs/calls.md) */
#define LIMIT_CALL_SILENT_US 10000 /* a service that has answered nothing for so long has one, */
#define LIMIT_CALL_SHARED_US \
    1000000 /* where another was called in so long, too: half of what is free, at most */

/* Calls of many (docs/collectives.md) */
#define LIMIT_COLLECTS       64   /* under way in one lane, those that others began included */
#define LIMIT_COLLECT_FAN    16   /* most that one node of the tree asks */
#define LIMIT_COLLECT_DEPTH  16   /* edges of a tree: two of each node need 8 for LIMIT_NODES */
#define LIMIT_COLLECT_ERRORS 8    /* that are told of one */
#define LIMIT_COLLECT_BYTES  7680 /* of a request, and of what replies are reduced to */

/* Regions (docs/regions.md) */
#define LIMIT_REGION_NAME_BYTES  64  /* of a name */
#define LIMIT_REGION_CHUNKS      128 /* of one region: a large one has large chunks */
#define LIMIT_REGION_CHUNK_BYTES (UINT64_C(1) << 40)
#define LIMIT_REGION_UNIT_BYTES  4096 /* of which a chunk is a multiple */
#define LIMIT_REGION_GRANTS      16   /* users of one region with rights of their own */
#define LIMIT_REGION_ASKS        8    /* changes of one region that wait for another */
#define LIMIT_REGION_TRIES       8    /* descriptors that one operation goes by, in a row */
#define LIMIT_REGION_HANDLES     (UINT32_C(1) << 17) /* regions that one session has open */
#define LIMIT_REGION_NAMES       (UINT32_C(1) << 20) /* regions of a lane, of all that it is to them */
/* Sessions share tables of a lane (src/node/session_shares.h): some places are each session's own,
 * in all a third of a table at most, and as many are kept for what sessions leave behind. */
#define LIMIT_REGION_IOS         32768 /* operations of all sessions under way in a lane */
#define LIMIT_REGION_IOS_OWN     8     /* of one session, whatever others have */
#define LIMIT_REGION_OPS         LIMIT_REGION_IOS /* on one region: all may be */
#define LIMIT_REGION_ASKED       3072             /* changes that a lane's sessions wait for, */
#define LIMIT_REGION_ASKED_OWN   1
#define LIMIT_REGION_ASKED_PEERS 6144 /* and that other nodes ask of it, shared by members */
#define LIMIT_REGION_STAGING     256  /* buffers of LIMIT_CALL_BYTES that bytes pass through */
#define LIMIT_REGION_STAGED      64   /* of them, that one session has at a time */
#define LIMIT_REGION_HERE        (UINT32_C(1) << 17) /* chunks of a node: each is registered */
#define LIMIT_REGION_POST        (UINT64_C(1) << 20) /* bytes of one READ, as a chunk moves here */
#define LIMIT_REGION_COPIES      3072 /* copies between regions under way in a lane, */
#define LIMIT_REGION_COPIES_OWN  1    /* and of one session, whatever others have */
#define LIMIT_REGION_COPY_BYTES \
    65536                          /* of a piece of one, and of a buffer that it passes through */
#define LIMIT_REGION_COPY_POSTS 8  /* pieces of one copy under way */
#define LIMIT_REGION_BUFFERS    96 /* of LIMIT_REGION_COPY_BYTES, for copies of a lane, */
#define LIMIT_REGION_BUFFERS_OWN \
    1 /* and of one session, beside those, and as many for what sessions leave behind */
#define LIMIT_REGION_PUSHES     256 /* pieces of copies that other nodes ask of a lane, shared, */
#define LIMIT_REGION_PUTS       16  /* and calls that bring them to one node, at most a fourth of */
#define LIMIT_REGION_LISTS      64  /* lists of regions under way in a lane, */
#define LIMIT_REGION_LISTS_EACH 4   /* and of one session */
#define LIMIT_REGION_LIST_LOOKS 256 /* regions that a home looks at for one answer */
#define LIMIT_REGION_LIST_US    UINT64_C(5000000) /* who is silent for so long is left out */
#define LIMIT_REGION_NEWS       64 /* handles that are looked at for one change, in a turn */
#define LIMIT_REGION_VECTOR     64 /* parts of one vectored read or write */
#define LIMIT_REGION_AGAIN_US   UINT64_C(1000) /* what waits for a link is looked at again */
#define LIMIT_REGION_HOLD_US \
    UINT64_C(20000) /* mappers have so long to stand still, twice this at most */
#define LIMIT_REGION_LOCKS         65536 /* of one region in use, at a node; and at its home */
#define LIMIT_REGION_LOCKS_KEPT    1024  /* of them, kept at a node though nobody there uses them */
#define LIMIT_REGION_HOLDS         65536 /* locks that sessions of a lane hold, or wait for */
#define LIMIT_REGION_HOLDS_OWN     16    /* of one session, whatever others have */
#define LIMIT_REGION_BARRIERS      256   /* of one region, that somebody takes part in */
#define LIMIT_REGION_FAN           8     /* nodes that one node of a barrier's tree hears */
#define LIMIT_REGION_CHUNK_DEFAULT (UINT64_C(16) << 20)
#define LIMIT_REGION_SLAB_PIECE    (UINT64_C(1) << 20)  /* chunks up to this share a mapping */
#define LIMIT_REGION_SLAB_BYTES    (UINT64_C(16) << 20) /* of such a mapping */
#define LIMIT_REGION_FILES \
    1024 /* chunks of a node whose memory is a file: clients map it, or have donated it */
#define LIMIT_REGION_MAPS     5120 /* of chunks, that all clients of a node have, */
#define LIMIT_REGION_MAPS_OWN 1    /* and of one session, whatever others have */
#define LIMIT_SESSION_MAPS    1024 /* of these, of one session */
#define LIMIT_REGION_TAKERS \
    8 /* users that one memory is remembered to have been given to; more are any */
#define LIMIT_SESSION_DONATIONS   4  /* memories that a session offers before they are a region */
#define LIMIT_DISPOSALS           16 /* descriptors of clients that are being closed elsewhere, */
#define LIMIT_DISPOSALS_EACH      4  /* and of one uid, but root's and the node's own */
#define LIMIT_DISPOSAL_WAITS      64 /* that wait for that, */
#define LIMIT_DISPOSAL_WAITS_EACH 16 /* and of one uid, with the same exceptions */
#define LIMIT_DISPOSAL_LOOK_US    UINT64_C(100000)
#define LIMIT_CLOSINGS            16 /* connections that are being closed elsewhere, */
#define LIMIT_CLOSING_WAITS       64 /* and that wait for that before nobody is let in */
#define LIMIT_REGION_RENEW_US     UINT64_C(50000)  /* what there was no memory for is tried again */
#define LIMIT_REGION_GRANT_US     UINT64_C(100000) /* what the system has is asked for that often */

/* Spaces (docs/spaces.md) */
#define LIMIT_SPACE_SEATS         64   /* nodes of one space, its homes among them */
#define LIMIT_SPACE_BLOCK_MIN     64   /* bytes of a block, a power of two, ... */
#define LIMIT_SPACE_BLOCK_BYTES   4096 /* and at most */
#define LIMIT_SPACE_BLOCK_DEFAULT 512
#define LIMIT_SPACE_NAME_BYTES    47
#define LIMIT_SPACES              64  /* that a node knows, all of which it takes part in */
#define LIMIT_SPACE_TOMBSTONES    256 /* births of those that were deleted, kept at each node */
#define LIMIT_SPACE_MAKES         16  /* of one node to make or delete one, at once */
#define LIMIT_SESSION_WINDOWS     64  /* of one client: threads that use spaces at the same time */
#define LIMIT_SPACE_HOLDS         64  /* blocks that one thread holds, or keeps */
#define LIMIT_SPACE_COUNT_STEP    (UINT64_C(1) << 56) /* that a thread counts between two looks */
#define LIMIT_SPACE_LOOK_US       UINT64_C(10000) /* who waits for a lane looks whether it lives */
#define LIMIT_SPACE_SETS          (1u << 24)      /* of one space's frames at one node */
#define LIMIT_SPACE_HOME_BYTES    (UINT64_C(1) << 46) /* of one space's home memory at one node */
#define LIMIT_SPACE_READ_TRIES    4     /* of a read without IPC before it asks the lane */
#define LIMIT_SPACE_RING_BYTES    32768 /* of a thread's store buffer, a power of two */
#define LIMIT_SPACE_TAKEN         256 /* records of one of these that wait in the lane, likewise */
#define LIMIT_SPACE_HINTS         64  /* of blocks that were read, kept for each thread, likewise */
#define LIMIT_SPACE_MESSAGE       64  /* bytes of a message from one node to another */
#define LIMIT_SPACE_RECEIVES      128 /* messages of one link on their way to a node: its receives */
#define LIMIT_SPACE_SENDS         256 /* of one link that have not ended: behind credits, or under way */
#define LIMIT_SPACE_BLOCKS        ((UINT64_C(1) << 30) - 1) /* of one space's home at one node */
#define LIMIT_SPACE_ASKS          256   /* of blocks of one home, that a node has under way */
#define LIMIT_SPACE_OPENING       256   /* bytes that a home which opens asks for, not there yet; */
#define LIMIT_SPACE_OPEN_BLOCKS   65536 /* blocks of it that it opens in one turn */
#define LIMIT_SPACE_LETTERS       65536 /* messages of a space that wait at a node for room in links */
#define LIMIT_SPACE_PLACES        16384 /* blocks of a space that somebody waits for at a node */
#define LIMIT_SPACE_ALIGN_BITS    30    /* of what an address may be asked to be a multiple of */
#define LIMIT_SPACE_TRIES         256 /* blocks of which a node asks at once whether they are held */
#define LIMIT_SPACE_TRY_US        UINT64_C(100) /* a try-lock has waited for so long before it asks */
#define LIMIT_SPACE_JOBS          256           /* mallocs and frees that a home has under way, */
#define LIMIT_SPACE_JOBS_EACH     16            /* and of one node */
#define LIMIT_SPACE_JOB_BLOCKS    1024          /* blocks of these in one turn */
#define LIMIT_SPACE_JOB_STEPS     64            /* of one free that wait for who has them, */
#define LIMIT_SPACE_STEPS         1280 /* and of all: each has one, whatever others wait for */
#define LIMIT_SPACE_RECORDS       64 /* records of a window that are carried out or wait for that */
#define LIMIT_SPACE_FETCHES       32 /* blocks ahead of a read's that come while it waits, */
#define LIMIT_SPACE_FETCH_US      UINT64_C(20000) /* in that time: then a read asks for them */
#define LIMIT_SPACE_ROW           512 /* writes of a row in one turn, that wait for nobody */
#define LIMIT_SPACE_LEAVING       2 /* frames of a set that are given up at once; nor are they held */
#define LIMIT_SPACE_LOG_BATCH \
    (UINT32_C(1) << 20) /* bytes of a log that are written at once, and of an image */
#define LIMIT_SPACE_LOG_BYTES_MIN (UINT64_C(64) << 10) /* of each of the two files of a log */
#define LIMIT_SPACE_LOG_BYTES_MAX (UINT64_C(1) << 40)
#define LIMIT_SPACE_LOG_FILE_MIN \
    (UINT64_C(4) << 20) /* ... of a node: as home and cache, but not less */
#define LIMIT_SPACE_LOG_FILE_MAX (UINT64_C(1) << 30)
#define LIMIT_SPACE_LOG_STEP \
    16 /* records of a whole block that one event may need, beside an atomic of each seat */
#define LIMIT_SPACE_LOG_WAITS \
    65536                      /* writes that are not durable: more do not lie in two batches */
#define LIMIT_SPACE_HELD 16384 /* messages that came while a log had no room */

/* Turns and priorities of regions (docs/qos.md) */
#define LIMIT_QOS_PIECE     (UINT64_C(256) << 10) /* bytes of one READ or WRITE of many */
#define LIMIT_QOS_QUANTUM   (UINT64_C(64) << 10)  /* bytes of a session's turn */
#define LIMIT_QOS_WINDOW    (UINT64_C(2) << 20)   /* bytes under way to one node */
#define LIMIT_QOS_HERE      (UINT64_C(1) << 20)   /* bytes that a lane moves here in one turn */
#define LIMIT_QOS_LEAST     UINT64_C(4096)        /* bytes that a piece counts as, at least */
#define LIMIT_QOS_RUN       (UINT64_C(4) << 20)   /* bytes of high priority to a piece of low */
#define LIMIT_QOS_PERIOD_US UINT64_C(2000)        /* a limit is looked at again */
#define LIMIT_QOS_LOAD_UNIT 8u /* a load: posts of high priority under way, times this */
#define LIMIT_QOS_LOAD_HIGH (2 * LIMIT_QOS_LOAD_UNIT)
#define LIMIT_QOS_LOAD_LIGHT \
    1u /* below this there is as good as none: an eighth of the time one is under way */
#define LIMIT_QOS_LATE_US   UINT64_C(50)         /* over twice the best: so much later is late */
#define LIMIT_QOS_BEST_US   UINT64_C(10000000)   /* what was best before twice this is forgotten */
#define LIMIT_QOS_LOW_LEAST (UINT64_C(1) << 20)  /* bytes a second that low priority has always */
#define LIMIT_QOS_LOW_MOST  (UINT64_C(64) << 30) /* a limit above this is none */
#define LIMIT_SESSION_OPS   1000000000u          /* a second, that a limit may be set to */
#define LIMIT_RATE_BURST_US UINT64_C(10000)      /* what a session did not use of its rates */

/* Configuration */
#define LIMIT_CONFIG_BYTES 65536 /* size of a configuration file */
#define LIMIT_CONFIG_POOLS 32    /* pools a configuration file may declare */

#endif
