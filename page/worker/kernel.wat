;; The page kernel (machine 8): compares and copies 4096-byte pages between the heap and the page store.
;;
;;   guest    the engine's linear memory; page p is the 4096 bytes at p * 4096
;;   store    the page store, shared; slot s is the 4096 bytes at s * 4096
;;   scratch  private; the caller puts page tables and lists there and grows it as needed
;;
;; Every pointer argument is a byte address in scratch. The caller guarantees that pages, slots and lists exist; an
;; address outside traps.
(module
  (import "guest" "memory" (memory $guest 0))
  (import "store" "memory" (memory $store 1 65536 shared))
  (memory $scratch (export "scratch") 1)

  ;; Whether the 4096 bytes at $page of guest differ from those at $slot of store. 128 bytes per step.
  (func $differs (param $page i32) (param $slot i32) (result i32)
    (local $end i32)
    (local.set $end (i32.add (local.get $page) (i32.const 4096)))
    (loop $step
      (if (v128.any_true
            (v128.or
              (v128.or
                (v128.or
                  (v128.xor (v128.load $guest (local.get $page)) (v128.load $store (local.get $slot)))
                  (v128.xor (v128.load $guest offset=16 (local.get $page))
                            (v128.load $store offset=16 (local.get $slot))))
                (v128.or
                  (v128.xor (v128.load $guest offset=32 (local.get $page))
                            (v128.load $store offset=32 (local.get $slot)))
                  (v128.xor (v128.load $guest offset=48 (local.get $page))
                            (v128.load $store offset=48 (local.get $slot)))))
              (v128.or
                (v128.or
                  (v128.xor (v128.load $guest offset=64 (local.get $page))
                            (v128.load $store offset=64 (local.get $slot)))
                  (v128.xor (v128.load $guest offset=80 (local.get $page))
                            (v128.load $store offset=80 (local.get $slot))))
                (v128.or
                  (v128.xor (v128.load $guest offset=96 (local.get $page))
                            (v128.load $store offset=96 (local.get $slot)))
                  (v128.xor (v128.load $guest offset=112 (local.get $page))
                            (v128.load $store offset=112 (local.get $slot)))))))
        (then (return (i32.const 1))))
      (local.set $slot (i32.add (local.get $slot) (i32.const 128)))
      (local.set $page (i32.add (local.get $page) (i32.const 128)))
      (br_if $step (i32.ne (local.get $page) (local.get $end))))
    (i32.const 0))

  ;; Lists at $out the heap pages in [0, $n) that differ from the u32 slots at $table; returns how many.
  (func (export "diff") (param $n i32) (param $table i32) (param $out i32) (result i32)
    (local $page i32) (local $first i32)
    (local.set $first (local.get $out))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $page) (local.get $n)))
        (if (call $differs
              (i32.shl (local.get $page) (i32.const 12))
              (i32.shl (i32.load $scratch (local.get $table)) (i32.const 12)))
          (then
            (i32.store $scratch (local.get $out) (local.get $page))
            (local.set $out (i32.add (local.get $out) (i32.const 4)))))
        (local.set $table (i32.add (local.get $table) (i32.const 4)))
        (local.set $page (i32.add (local.get $page) (i32.const 1)))
        (br $next)))
    (i32.shr_u (i32.sub (local.get $out) (local.get $first)) (i32.const 2)))

  ;; Copies heap page -> slot for the $n pairs (page, slot) of u32 at $list.
  (func (export "take") (param $n i32) (param $list i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $n)))
        (memory.copy $store $guest
          (i32.shl (i32.load $scratch offset=4 (local.get $list)) (i32.const 12))
          (i32.shl (i32.load $scratch (local.get $list)) (i32.const 12))
          (i32.const 4096))
        (local.set $list (i32.add (local.get $list) (i32.const 8)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br $next))))

  ;; Makes heap pages [0, $n) equal to the u32 slots at $table, writing only pages that differ; returns how many.
  (func (export "put") (param $n i32) (param $table i32) (result i32)
    (local $page i32) (local $end i32) (local $slot i32) (local $count i32)
    (local.set $end (i32.shl (local.get $n) (i32.const 12)))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $n)))
        (local.set $slot (i32.shl (i32.load $scratch (local.get $table)) (i32.const 12)))
        (if (call $differs (local.get $page) (local.get $slot))
          (then
            (memory.copy $guest $store (local.get $page) (local.get $slot) (i32.const 4096))
            (local.set $count (i32.add (local.get $count) (i32.const 1)))))
        (local.set $table (i32.add (local.get $table) (i32.const 4)))
        (local.set $page (i32.add (local.get $page) (i32.const 4096)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br $next)))
    (local.get $count)))
