; Runs test namespaces: clojure … clojure-run.clj NAMESPACE…; writes `KEY <tests> <failed>` to fd 3 at their end, where KEY
; is what stdin said before any of their code was loaded. What it calls is in locals, which no solution can alter; that
; the functions of `clojure.core` and `clojure.test`, and what `report` does, are the old ones is looked at twice.
(require 'clojure.test)
(let [key (.readNBytes System/in 32)
      out (java.io.FileOutputStream. "/dev/fd/3")
      spaces (mapv symbol *command-line-args*)
      [call load run text every pairs methods-of] [apply require clojure.test/run-tests str every? map methods]
      report clojure.test/report
      root (fn [^clojure.lang.Var one] (.getRawRoot one))
      vars (filterv #(not (and (:dynamic (meta %)) (not= % #'clojure.test/report)))
                    (mapcat (comp vals ns-publics) ['clojure.core 'clojure.test]))
      roots (mapv root vars)
      ways (methods report)
      same (fn [one old] (identical? (root one) old))
      held (fn [] (and (every true? (pairs same vars roots)) (.equals ^Object ways (methods-of report))))]
  (call load spaces)
  (let [held-first (held)
        {:keys [test fail error]} (call run spaces)
        failed (+ fail error (if (and held-first (held)) 0 1))]
    (.write out ^bytes key)
    (.write out (.getBytes ^String (text " " test " " failed "\n")))
    (System/exit 0)))
